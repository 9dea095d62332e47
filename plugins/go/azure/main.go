// Command azure is the official cloud provider for Azure as a plugin of Skydock, unmodified.
package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	upstream "k8s.io/cloud-provider"
	"sigs.k8s.io/cloud-provider-azure/pkg/provider"
	"sigs.k8s.io/cloud-provider-azure/pkg/provider/config"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/cloudprovider"
)

func init() {
	cloudprovider.Serve(cloudprovider.Provider{
		Name:        "azure",
		Version:     "1.36.5-go",
		IDPrefixes:  []string{"azure://"},
		WantedHosts: []string{"https://management.azure.com:443", "https://login.microsoftonline.com:443"},
		// The host logs in, and answers the provider's login.
		Env:      map[string]string{"AZURE_CLIENT_SECRET": "skydock"},
		New:      construct,
		Classify: classify,
	})
}

func main() {}

// construct does what the manager's own main does: the provider is not registered by name. It requests the zones of all regions.
func construct(text io.Reader) (upstream.Interface, error) {
	parsed, err := config.ParseConfig(text)
	if err != nil {
		return nil, skydock.Invalid("%w", err)
	}
	return provider.NewCloud(context.Background(), nil, parsed, true)
}

func classify(err error) error {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return nil
	}
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return skydock.Denied("%w", err)
	case code == http.StatusTooManyRequests:
		return skydock.Throttled(10*time.Second, "%w", err)
	case code == http.StatusPreconditionFailed:
		return skydock.Conflict("%w", err)
	case code == http.StatusConflict: // another operation is in progress
		return skydock.InProgress(10*time.Second, "%w", err)
	case code >= http.StatusInternalServerError:
		return skydock.Unavailable("%w", err)
	}
	return nil
}
