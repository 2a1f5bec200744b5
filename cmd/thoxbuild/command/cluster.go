package command

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/thox-ai/thoxbuild/compile/local"
	"github.com/thox-ai/thoxbuild/compile/remote"
	"github.com/thox-ai/thoxbuild/toolchain"
)

// clusterOptions say which Remote Execution cluster runs the actions of a
// build.
type clusterOptions struct {
	url, instance string
	headers       []string // NAME=VARIABLE
	platform      []string // KEY=VALUE
	ca, cert, key string
	cacheOnly     bool
}

// flags adds the options to a command.
func (o *clusterOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.url, "remote", "", "run actions on this cluster: grpc://HOST:PORT, grpcs://HOST:PORT with TLS, unix:///SOCKET (default $THOXBUILD_REMOTE)")
	f.BoolVar(&o.cacheOnly, "remote-cache-only", false, "run actions here, and share results through the cluster's cache (default $THOXBUILD_REMOTE_CACHE_ONLY)")
	f.StringVar(&o.instance, "remote-instance", "", "instance name on the cluster (default $THOXBUILD_REMOTE_INSTANCE)")
	f.StringArrayVar(&o.headers, "remote-header", nil, "`NAME=VARIABLE`: send the value of an environment variable with every call (default $THOXBUILD_REMOTE_HEADERS, by commas)")
	f.StringArrayVar(&o.platform, "remote-platform", nil, "`KEY=VALUE`: what the cluster needs to know to choose a machine (default $THOXBUILD_REMOTE_PLATFORM, by commas)")
	f.StringVar(&o.ca, "remote-ca", "", "PEM `FILE` of the certificates to trust instead of the system's (default $THOXBUILD_REMOTE_CA)")
	f.StringVar(&o.cert, "remote-cert", "", "PEM `FILE` of the client's certificate (default $THOXBUILD_REMOTE_CERT)")
	f.StringVar(&o.key, "remote-key", "", "PEM `FILE` of its key (default $THOXBUILD_REMOTE_KEY)")
}

// fromEnvironment fills in what was not given. An address that is given as ""
// keeps the build here, whatever the environment says.
func (o *clusterOptions) fromEnvironment(changed func(flag string) bool, getenv func(string) string) error {
	if !changed("remote") {
		o.url = getenv("THOXBUILD_REMOTE")
	}
	switch value := getenv("THOXBUILD_REMOTE_CACHE_ONLY"); {
	case changed("remote-cache-only") && o.url == "" && !changed("remote"):
		return withHint(usagef("--remote-cache-only says nothing without a cluster"), "add --remote grpc://HOST:PORT")
	case changed("remote-cache-only") || value == "":
	default:
		only, err := strconv.ParseBool(value)
		if err != nil {
			return usagef("THOXBUILD_REMOTE_CACHE_ONLY is %q: expected true or false", value)
		}
		o.cacheOnly = only
	}
	for _, v := range []struct {
		flag, name string
		text       *string
		list       *[]string
	}{
		{"remote-instance", "INSTANCE", &o.instance, nil}, {"remote-header", "HEADERS", nil, &o.headers}, {"remote-platform", "PLATFORM", nil, &o.platform},
		{"remote-ca", "CA", &o.ca, nil}, {"remote-cert", "CERT", &o.cert, nil}, {"remote-key", "KEY", &o.key, nil},
	} {
		switch value := getenv("THOXBUILD_REMOTE_" + v.name); {
		case changed(v.flag) && o.url == "" && !changed("remote"):
			return withHint(usagef("--%s says nothing without a cluster", v.flag), "add --remote grpc://HOST:PORT")
		case changed(v.flag) || value == "":
		case v.text != nil:
			*v.text = value
		default:
			*v.list = strings.Split(value, ",")
		}
	}
	return nil
}

// remoteJobs is how many actions are on their way at once where -j does not
// say. A cluster puts those in a queue that it has no machine for.
const remoteJobs = 32

// executor connects to the cluster. Nothing is sent before the first action.
func (o *clusterOptions) executor(store *toolchain.Store, here *local.Executor, log func(format string, args ...any), getenv func(string) (string, bool)) (*remote.Executor, error) {
	c := remote.Config{
		URL: o.url, CacheOnly: o.cacheOnly, Instance: o.instance, CA: o.ca, Cert: o.cert, Key: o.key,
		Headers: map[string]string{}, Platform: map[string]string{},
		ToolRoot: toolchain.VirtualRoot + "/", Log: log,
		Tools: func(name string) (string, []string, error) {
			dir, needs, err := store.Portable(name)
			if installed := (*toolchain.InstalledError)(nil); errors.As(err, &installed) {
				err = &remote.HereError{Reason: err.Error()}
			}
			return dir, needs, err
		},
	}
	for _, h := range o.headers {
		name, variable, ok := strings.Cut(h, "=")
		if !ok || name == "" || variable == "" {
			return nil, withHint(usagef("--remote-header: expected NAME=VARIABLE"), "put the value into an environment variable and name that, as in authorization=CLUSTER_TOKEN")
		}
		value, ok := getenv(variable)
		value = strings.TrimSpace(value) // the end of the line of the file it was read from
		if !ok || value == "" {
			// What stands there may be the secret itself.
			return nil, withHint(usagef("--remote-header %s: there is nothing in an environment variable of the name behind the '='", name), "export it; the value itself does not belong on the command line")
		}
		c.Headers[name] = value
	}
	for _, p := range o.platform {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			return nil, usagef("--remote-platform %q: expected KEY=VALUE, as in OSFamily=linux", p)
		}
		c.Platform[key] = value
	}
	e, err := remote.New(c, here)
	if err != nil {
		return nil, usageError{err}
	}
	// zig wants a place for its caches; see Store.LocalEnv.
	cache := path.Join(remote.Scratch, "zig")
	e.Env = map[string]string{"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
	e.Trace = here.Trace
	return e, nil
}
