// Command skydock-csi-sanity runs csi-sanity, the tests of the CSI project for drivers, against a controller part. That needs a node
// part, which Skydock does not have: the one here only knows its ID, and has nothing to mount. Specs are chosen with the flags of ginkgo.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// identity is that of the controller part.
type identity struct {
	csi.UnimplementedIdentityServer
	controller csi.IdentityClient
}

func (i identity) GetPluginInfo(ctx context.Context, r *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return i.controller.GetPluginInfo(ctx, r)
}

func (i identity) GetPluginCapabilities(ctx context.Context, r *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return i.controller.GetPluginCapabilities(ctx, r)
}

func (i identity) Probe(ctx context.Context, r *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return i.controller.Probe(ctx, r)
}

type node struct {
	csi.UnimplementedNodeServer
	info *csi.NodeGetInfoResponse
}

func (n node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return n.info, nil
}

func (n node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// These are called when a spec cleans up.
func (n node) NodeUnpublishVolume(context.Context, *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n node) NodeUnstageVolume(context.Context, *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, nil
}

type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }

func main() {
	endpoint := flag.String("endpoint", "", "socket of the controller part")
	id := flag.String("node", "", "CSI node ID of a node")
	limit := flag.Int64("limit", 0, "maximum number of volumes of a node")
	key := flag.String("attribute", "", "name of an attribute of volumes that can change")
	value := flag.String("value", "", "a value of it")
	flag.Parse()

	connection, err := grpc.NewClient("unix://"+*endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	check(err)
	dir, err := os.MkdirTemp("", "skydock-csi-sanity-")
	check(err)
	defer os.RemoveAll(dir)

	controller := csi.NewIdentityClient(connection)
	waitUntilReady(controller)
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{controller: controller})
	csi.RegisterNodeServer(server, node{info: &csi.NodeGetInfoResponse{NodeId: *id, MaxVolumesPerNode: *limit}})
	listener, err := net.Listen("unix", filepath.Join(dir, "node.sock"))
	check(err)
	go func() { check(server.Serve(listener)) }()

	config := sanity.NewTestConfig()
	config.Address = "unix://" + listener.Addr().String()
	config.ControllerAddress = "unix://" + *endpoint
	config.TargetPath, config.StagingPath = filepath.Join(dir, "mount"), filepath.Join(dir, "staging")
	config.TestNodeVolumeAttachLimit = *limit > 0
	if *key != "" {
		config.TestVolumeMutableParameters = map[string]string{*key: *value}
	}
	var ran outcome
	sanity.Test(&ran, config)
	if ran.failed {
		os.RemoveAll(dir)
		os.Exit(1)
	}
}

// waitUntilReady waits until the controller part leads, as sidecars do.
func waitUntilReady(controller csi.IdentityClient) {
	deadline := time.Now().Add(time.Minute)
	for {
		answer, err := controller.Probe(context.Background(), &csi.ProbeRequest{})
		if err == nil && answer.GetReady().GetValue() {
			return
		}
		if time.Now().After(deadline) {
			log.Fatalf("the controller part is not ready: %v, %v", answer, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
