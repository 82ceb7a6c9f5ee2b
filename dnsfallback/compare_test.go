package dnsfallback

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCompare says in words what changes from one choice to another, in a state.
func TestCompare(t *testing.T) {
	three := Choice{Service: "web", Methods: []string{"hash"}, Members: sites("ams", "fra", "lon")}
	v4 := func(c Choice) Choice {
		c.Members = append([]Member{}, c.Members...)
		for i := range c.Members {
			c.Members[i].Addresses = c.Members[i].Addresses[:1]
		}
		return c
	}
	without := func(name string) Choice {
		c := three
		c.Members = nil
		for _, m := range three.Members {
			if m.Site != name {
				c.Members = append(c.Members, m)
			}
		}
		return c
	}
	with := func(change func(*Choice)) Choice {
		c := three
		change(&c)
		return c
	}
	for _, x := range []struct {
		name  string
		is    Choice
		state string
		want  string // names without .example.com, a line each
	}{
		{"nothing", three, "", ""},
		{"nothing, while some are down", three, "ams down, fra down", ""},
		{"a member goes", without("lon"), "", "A -lon 192.0.2.3 moved; AAAA -lon 2001:db8::3 moved"},
		{"one goes that is down", without("lon"), "lon down", "A -lon 192.0.2.3; AAAA -lon 2001:db8::3"},
		{"the only one that is well goes", without("lon"), "ams down, fra down", "A -lon 192.0.2.3 moved emptied; AAAA -lon 2001:db8::3 moved emptied"},
		{"and there is a fallback", with(func(c *Choice) {
			c.Members, c.Fallback = without("lon").Members, []string{"198.51.100.1", "2001:db8:1::1"}
		}), "ams down, fra down",
			"A -lon 192.0.2.3 +fallback 198.51.100.1 moved; AAAA -lon 2001:db8::3 +fallback 2001:db8:1::1 moved"},
		{"all are down before and after", without("lon"), "ams down, fra down, lon down", "A -lon 192.0.2.3 moved; AAAA -lon 2001:db8::3 moved"},
		{"another method", with(func(c *Choice) { c.Methods = []string{"priority"} }), "", "A moved; AAAA moved"},
		{"another method of one", with(func(c *Choice) { c.Methods = []string{"priority"} }), "ams down, fra down", ""},
		{"a family goes", v4(three), "", "AAAA -ams 2001:db8::1 -fra 2001:db8::2 -lon 2001:db8::3 emptied"},
	} {
		t.Run(x.name, func(t *testing.T) {
			was, is := Side{Policy: steeredPolicy(t, three), State: state(x.state)}, Side{Policy: steeredPolicy(t, x.is), State: state(x.state)}
			var got []string
			for _, d := range Compare(was, is, nil) {
				if d.Name != "www.example.com" {
					t.Errorf("%s", d)
				}
				words := []string{d.Type}
				for _, l := range d.Lost {
					words = append(words, "-"+l)
				}
				for _, l := range d.Gained {
					words = append(words, "+"+l)
				}
				if d.Moved > 0 {
					words = append(words, "moved")
				}
				if d.Emptied {
					words = append(words, "emptied")
				}
				got = append(got, strings.Join(words, " "))
			}
			if strings.Join(got, "; ") != x.want {
				t.Errorf("%s\nwant %s", strings.Join(got, "; "), x.want)
			}
		})
	}
}

// TestCompareWholeZones: a zone that goes empties the names that state steers; a side without zones has no names.
func TestCompareWholeZones(t *testing.T) {
	p := steeredPolicy(t, Choice{Service: "web", Members: sites("ams")})
	gone := Compare(Side{Policy: p}, Side{}, nil)
	var names []string
	for _, d := range gone {
		if steered := d.Type == "A" || d.Type == "AAAA"; d.Emptied != steered {
			t.Errorf("%s", d)
		}
		names = append(names, d.Name+" "+d.Type)
	}
	if got := strings.Join(names, ", "); got != "*.any.example.com CNAME, alias.example.com CNAME, example.com NS, www.example.com A, www.example.com TXT, www.example.com AAAA" {
		t.Error(got)
	}
	for _, d := range Compare(Side{}, Side{Policy: p}, nil) {
		if d.Emptied || len(d.Lost) > 0 || len(d.Gained) == 0 {
			t.Errorf("%s", d)
		}
	}
	if got := gone[3].String(); got != "www.example.com A: no more ams 192.0.2.1; nobody that is well is left to answer with" {
		t.Error(got)
	}
}

// TestCompareIsQuiet: a policy does not differ from itself, whatever its methods,
// weights and states; and no client is counted as one.
func TestCompareIsQuiet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		make := func() *Policy {
			members := sites("ams", "fra", "lon", "par")
			for i := range members {
				members[i].Weight = new((i * 7) % 5)
			}
			return steeredPolicy(t, Choice{Service: "web", Members: members, Methods: []string{rapid.SampledFrom(methodNames[1:]).Draw(rt, "method")}})
		}
		words := ""
		for _, n := range []string{"ams", "fra", "lon", "par"} {
			words += fmt.Sprintf("%s %s,", n, rapid.SampledFrom([]string{"up", "down", "suspect", "ramp 20", "shed 30"}).Draw(rt, n))
		}
		p := make()
		if ds := Compare(Side{Policy: p, State: state(words)}, Side{Policy: p, State: state(words)}, nil); len(ds) > 0 {
			rt.Fatal(ds)
		}
		for _, g := range p.Table(1, nil, state(words)).Given() {
			if g.Count > 0 {
				rt.Fatal("a comparison was counted as a client")
			}
		}
	})
}
