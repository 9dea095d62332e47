// Package args gives the program a name. The host passes no arguments, and some packages, for example klog, need the first one when
// they are initialized. Packages are initialized in the order of their paths, so this one, which needs nothing but os, comes
// before those of k8s.io.
package args

import "os"

func init() {
	if len(os.Args) == 0 {
		os.Args = []string{"plugin"}
	}
}
