// Package cloudprovider serves a provider that was written for the Kubernetes module k8s.io/cloud-provider as a plugin of
// Skydock, unmodified. A plugin registers the provider with a blank import, and says what this package cannot know:
//
//	import _ "k8s.io/cloud-provider-aws/pkg/providers/v1"
//
//	func init() {
//		cloudprovider.Serve(cloudprovider.Provider{
//			Name:       "aws",
//			Version:    "1.37.0",
//			IDPrefixes: []string{"aws://"},
//		})
//	}
//
//	func main() {}
//
// The provider is constructed and initialized in the first call that needs it, because it may call the cloud then. Its clients
// and informers see the nodes and Services of the host, and nothing else of the cluster: annotations and events that it writes
// go to the host, the Secrets, ConfigMaps and Namespaces that it reads come from there, everything else is forbidden. All calls
// go to one instance, one after another, because providers keep locks and caches in memory.
//
// # Options
//
// Options of the operator whose names are in capitals are environment variables of the provider. Others are:
//
//   - log-level: the least severity of the logs of the provider, info, warning (the default) or error
//   - v: the verbosity of the logs of the provider
//   - unused: capabilities that are not used, separated by commas; it replaces those that the provider does not use by default
//   - objects: the Secrets, ConfigMaps and Namespaces that the provider lists, separated by commas, for example
//     v1/Secret kube-system/login; they must be granted
//   - allow-untagged-cloud: true, if the cloud may have no cluster ID
//
// and those of the provider (see [Provider.Option]).
package cloudprovider
