// Package config reads node.yaml and fleet.yaml and says, all at once and each
// with its place, everything that is wrong with them.
//
//	bytes ─▶ YAML nodes ─▶ structs ─▶ + environment, flags ─▶ judge ─▶ *Config
//	 parse      reader.read             overlay (viper)       owners'     immutable
//	                                                          rules,
//	                                                          defaults
//
// A file is read by walking its YAML nodes and the settings structs side by
// side, rather than by a decoder: a decoder stops at the first mistake, gives no
// column, and takes `interval: 500` for 500 nanoseconds. The settings types and
// their rules belong to the packages that use them (bgp.Settings, probe.Check,
// decide.Table, dnsfallback.Zone); this package asks those, puts a place to each of their
// sentences, and adds the rules that lie between two sections.
//
// What it promises: what is written is what is used. An unknown key, a value
// that would be taken for "not given", an empty list and a name that resembles
// one of our variables are problems, not guesses. A secret appears in no
// message, no difference and no listing.
//
// What it does not do: watch files, keep a current configuration, or change one
// that was loaded. Whoever reloads calls [Load] again and compares with [Diff].
package config
