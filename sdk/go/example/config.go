package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"strings"

	skydock "github.com/skydock/skydock/sdk/go"
)

// config is the file of cloudConfig. There is no token in it: the host adds that to each request.
type config struct {
	// URL of the cloud with its port, without a path.
	URL string `json:"url"`
	// Region of the cluster. Servers of other regions are not its nodes.
	Region string `json:"region"`
}

// parse reads and checks the configuration.
func parse(settings skydock.Settings) (config, error) {
	path := settings.CloudConfigPath
	if path == "" {
		path = "the cloud configuration"
	}
	var c config
	decoder := json.NewDecoder(bytes.NewReader([]byte(settings.CloudConfig)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, skydock.Invalid("%s: %w", path, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return c, skydock.Invalid("%s: there is something after the object", path)
	}
	at, err := url.Parse(c.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" || c.URL != at.Scheme+"://"+at.Host || !isPort(at.Port()) {
		return c, skydock.Invalid("%s: url: expected a URL with a port and no path, as in https://cloud.example:443", path)
	}
	if c.Region == "" {
		return c, skydock.Invalid("%s: region is empty", path)
	}
	return c, nil
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// scheme is the beginning of the provider IDs of this cloud's servers: simcloud:///ZONE/ID.
const scheme = "simcloud://"

func providerID(zone, id string) string { return scheme + "/" + zone + "/" + id }

// serverID returns the ID of the server in a provider ID.
func serverID(providerID string) (string, bool) {
	rest, ok := strings.CutPrefix(providerID, scheme+"/")
	_, id, found := strings.Cut(rest, "/")
	return id, ok && found && id != "" && !strings.Contains(id, "/")
}
