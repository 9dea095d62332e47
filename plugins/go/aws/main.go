// Command aws is the official cloud provider for AWS as a plugin of Skydock, unmodified.
package main

import (
	"regexp"
	"time"

	_ "k8s.io/cloud-provider-aws/pkg/providers/v1"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/cloudprovider"
)

func init() {
	cloudprovider.Serve(cloudprovider.Provider{
		Name:        "aws",
		Version:     "1.37.0-go",
		IDPrefixes:  []string{"aws://"},
		WantedHosts: []string{"https://*.amazonaws.com:443"},
		// The host replaces the signature. All nodes of a call are asked for at once, so that the provider joins the requests.
		Env: map[string]string{
			"AWS_ACCESS_KEY_ID": "skydock", "AWS_SECRET_ACCESS_KEY": "skydock", "AWS_EC2_METADATA_DISABLED": "true",
		},
		Parallel: 1000,
		Classify: classify,
	})
}

func main() {}

// code finds the code of an error in its text: the provider formats errors with %q.
var code = regexp.MustCompile(`api error ([A-Za-z0-9.]+)`)

func classify(err error) error {
	match := code.FindStringSubmatch(err.Error())
	if match == nil {
		return nil
	}
	switch match[1] {
	case "UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken":
		return skydock.Denied("%w", err)
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException":
		return skydock.Throttled(5*time.Second, "%w", err)
	case "InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable":
		return skydock.Unavailable("%w", err)
	case "DependencyViolation", "ResourceInUse":
		return skydock.InProgress(10*time.Second, "%w", err)
	}
	return nil
}
