// Command skydock-vcsim is govmomi's simulator of a vCenter, with virtual machines that the caller turns off and deletes. It ends
// when its standard input is closed.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// machine is a virtual machine, as the caller sees it.
type machine struct {
	Name    string `json:"name"` // of the guest
	UUID    string `json:"uuid"`
	Address string `json:"address"`
}

// state is what the caller gets.
type state struct {
	Server   string    `json:"server"` // HOST:PORT
	Machines []machine `json:"machines"`
}

func main() {
	control := flag.String("control", "", "address of the caller's own API")
	certificate := flag.String("certificate", "", "file with the certificate of the vCenter")
	key := flag.String("key", "", "file with its key")
	user := flag.String("user", "", "name of the only user")
	password := flag.String("password", "", "password of that user")
	count := flag.Int("machines", 4, "number of virtual machines")
	flag.Parse()

	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	check(err)
	model := simulator.VPX()
	model.Host = 0 // all hosts are in the cluster, which is the zone
	model.Machine = *count
	check(model.Create())
	model.Service.RegisterEndpoints = true
	model.Service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(*user, *password)}
	server := model.Service.NewServer()

	ctx := context.Background()
	client, err := govmomi.NewClient(ctx, server.URL, true)
	check(err)
	check(tag(ctx, client, server.URL.User))
	seen := state{Server: server.URL.Host, Machines: equip(model)}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { check(json.NewEncoder(w).Encode(seen)) })
	for action, change := range map[string]func(*object.VirtualMachine) (*object.Task, error){
		"power-on":  func(vm *object.VirtualMachine) (*object.Task, error) { return vm.PowerOn(ctx) },
		"power-off": func(vm *object.VirtualMachine) (*object.Task, error) { return vm.PowerOff(ctx) },
		"destroy":   func(vm *object.VirtualMachine) (*object.Task, error) { return vm.Destroy(ctx) },
	} {
		mux.HandleFunc("GET /"+action+"/{uuid}", func(w http.ResponseWriter, r *http.Request) {
			if err := do(ctx, client, r.PathValue("uuid"), change); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	go func() { check(http.ListenAndServe(*control, mux)) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// equip gives the machines what VMware's tools would report.
func equip(model *simulator.Model) []machine {
	var out []machine
	for i, entity := range model.Map().All("VirtualMachine") {
		vm := entity.(*simulator.VirtualMachine)
		address := fmt.Sprintf("10.1.0.%d", i+1)
		vm.Guest.HostName, vm.Guest.IpAddress = strings.ToLower(strings.ReplaceAll(vm.Name, "_", "-")), address
		vm.Guest.Net = []types.GuestNicInfo{{
			Network: "VM Network", IpAddress: []string{address}, MacAddress: fmt.Sprintf("00:0c:29:00:00:%02x", i+1), Connected: true,
			DeviceConfigId: 4000,
		}}
		out = append(out, machine{Name: vm.Guest.HostName, UUID: vm.Config.Uuid, Address: address})
	}
	return out
}

// tag makes the data center the region, and the cluster the zone.
func tag(ctx context.Context, client *govmomi.Client, user *url.Userinfo) error {
	api := rest.NewClient(client.Client)
	if err := api.Login(ctx, user); err != nil {
		return err
	}
	finder := find.NewFinder(client.Client)
	region, err := finder.DefaultDatacenter(ctx)
	if err != nil {
		return err
	}
	zone, err := finder.SetDatacenter(region).DefaultClusterComputeResource(ctx)
	if err != nil {
		return err
	}
	manager := tags.NewManager(api)
	for _, it := range []struct {
		category, tag string
		object        mo.Reference
	}{{"k8s-region", "region-a", region}, {"k8s-zone", "zone-a", zone}} {
		category, err := manager.CreateCategory(ctx, &tags.Category{Name: it.category, Cardinality: "SINGLE"})
		if err != nil {
			return err
		}
		tag, err := manager.CreateTag(ctx, &tags.Tag{Name: it.tag, CategoryID: category})
		if err != nil {
			return err
		}
		if err := manager.AttachTag(ctx, tag, it.object); err != nil {
			return err
		}
	}
	return nil
}

// do changes a machine, and waits for the end of the task.
func do(ctx context.Context, client *govmomi.Client, uuid string, change func(*object.VirtualMachine) (*object.Task, error)) error {
	found, err := object.NewSearchIndex(client.Client).FindByUuid(ctx, nil, uuid, true, nil)
	if err != nil {
		return err
	}
	vm, ok := found.(*object.VirtualMachine)
	if !ok {
		return fmt.Errorf("no virtual machine has the UUID %s", uuid)
	}
	task, err := change(vm)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
