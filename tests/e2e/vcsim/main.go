// Command skydock-vcsim is govmomi's simulator of a vCenter, with virtual machines that the caller creates, turns off and deletes. It
// ends when its standard input is closed. It serves HTTP without TLS, which its caller puts in front of it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"

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

func main() {
	control := flag.String("control", "", "address of the caller's own API")
	user := flag.String("user", "", "name of the only user")
	password := flag.String("password", "", "password of that user")
	flag.Parse()

	model := simulator.VPX()
	model.Host = 0 // all hosts are in the cluster, which is the zone
	model.Machine = 1
	check(model.Create())
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(*user, *password)}
	server := model.Service.NewServer()

	ctx := context.Background()
	client, err := govmomi.NewClient(ctx, server.URL, true)
	check(err)
	check(tag(ctx, client, server.URL.User))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, server.URL.Host) })
	mux.HandleFunc("GET /create/{number}", func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.Atoi(r.PathValue("number"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		made, err := create(ctx, client, model, number)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(made)
	})
	for action, change := range map[string]func(*object.VirtualMachine) (*object.Task, error){
		"power-on":  func(vm *object.VirtualMachine) (*object.Task, error) { return vm.PowerOn(ctx) },
		"power-off": func(vm *object.VirtualMachine) (*object.Task, error) { return vm.PowerOff(ctx) },
		"destroy": func(vm *object.VirtualMachine) (*object.Task, error) {
			// One that runs cannot be destroyed.
			if task, err := vm.PowerOff(ctx); err == nil {
				_ = task.Wait(ctx)
			}
			return vm.Destroy(ctx)
		},
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

// create clones the machine of the model, turns the clone on, and gives it what VMware's tools would report.
func create(ctx context.Context, client *govmomi.Client, model *simulator.Model, number int) (machine, error) {
	finder := find.NewFinder(client.Client)
	center, err := finder.DefaultDatacenter(ctx)
	if err != nil {
		return machine{}, err
	}
	folders, err := center.Folders(ctx)
	if err != nil {
		return machine{}, err
	}
	first, err := finder.SetDatacenter(center).VirtualMachine(ctx, "DC0_C0_RP0_VM0")
	if err != nil {
		return machine{}, err
	}
	name := fmt.Sprintf("node-%d", number)
	cloning, err := first.Clone(ctx, folders.VmFolder, name, types.VirtualMachineCloneSpec{})
	if err != nil {
		return machine{}, err
	}
	cloned, err := cloning.WaitForResult(ctx)
	if err != nil {
		return machine{}, err
	}
	vm := model.Map().Get(cloned.Result.(types.ManagedObjectReference)).(*simulator.VirtualMachine)
	starting, err := object.NewVirtualMachine(client.Client, vm.Self).PowerOn(ctx)
	if err != nil {
		return machine{}, err
	}
	if err := starting.Wait(ctx); err != nil {
		return machine{}, err
	}
	address := fmt.Sprintf("10.1.%d.%d", number/250, number%250+1)
	model.Map().WithLock(model.Service.Context, vm, func() {
		vm.Guest.HostName, vm.Guest.IpAddress = name, address
		vm.Guest.Net = []types.GuestNicInfo{{
			Network: "VM Network", IpAddress: []string{address}, MacAddress: fmt.Sprintf("00:0c:29:00:%02x:%02x", number/250, number%250),
			Connected: true, DeviceConfigId: 4000,
		}}
	})
	return machine{Name: name, UUID: vm.Config.Uuid, Address: address}, nil
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
