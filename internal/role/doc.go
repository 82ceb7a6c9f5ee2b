// Package role is what every process of ours shares, whatever its role: how it
// starts and says that it is ready, how it is told to reload, dump and stop, how
// its watchdog is fed, how it logs, how it opens its unix socket and how it puts
// a file on disk. It knows nothing of what a role does.
package role
