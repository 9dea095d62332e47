package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// startPatience bounds the start of containerd, which takes a second on an idle machine.
const startPatience = time.Minute

// hidden are the directories in which the programs of a node leave files by default. Each node has its own, in memory.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// settings are those of the kernel that a kubelet changes. A node sees files with the values that it wants, so that
// those of the machine stay as they are.
var settings = map[string]string{
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxbytes": "25000000",
	"kernel/keys/root_maxkeys":  "1000000",
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
}

func init() {
	programs["kubelet"] = component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) })
	programs["node"] = runNode
	programs["node-init"] = runNodeInit
}

// machine is a node with a kubelet and containerd, apart from the machine that it runs on: it has its own processes,
// mounts, network and name. All of it ends with one process, so that nothing is left, however that ends.
type machine struct {
	name, folder, tools string
	addresses, images   []string
	out, in             []passage
	kubelet             []string
}

// passage leads from an address in one network, that of the node or that of the machine, to an address in the other one.
type passage struct{ from, to string }

// parseNode reads the command line that node and node-init have in common.
func parseNode() (*machine, error) {
	var it machine
	list := func(to *[]string) func(string) error {
		return func(value string) error { *to = append(*to, value); return nil }
	}
	passages := func(all *[]passage) func(string) error {
		return func(value string) error {
			from, to, found := strings.Cut(value, "=")
			if !found {
				return errors.New("expected ADDRESS=ADDRESS")
			}
			*all = append(*all, passage{from, to})
			return nil
		}
	}
	flags := flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
	flags.StringVar(&it.name, "name", "", "host name")
	flags.StringVar(&it.folder, "folder", "", "folder of the node, with config.toml of containerd")
	flags.StringVar(&it.tools, "tools", "", "folder with usr/bin/containerd, usr/sbin/runc and usr/lib/cni")
	flags.Func("address", "IPv4 address of the node; may be repeated", list(&it.addresses))
	flags.Func("out", "address at which the node reaches one of the machine, as NODE=MACHINE; may be repeated", passages(&it.out))
	flags.Func("in", "address at which the machine reaches one of the node, as MACHINE=NODE; may be repeated", passages(&it.in))
	flags.Func("image", "archive to import; may be repeated", list(&it.images))
	if err := flags.Parse(os.Args[1:]); err != nil {
		return nil, err
	}
	it.kubelet = flags.Args()
	return &it, nil
}

// runNode starts a node, and ends it when it is told to by SIGTERM or by the end of its standard input.
func runNode() int {
	err := func() error {
		node, err := parseNode()
		if err != nil {
			return err
		}
		return node.run()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "control-plane node:", err)
		return 1
	}
	return 0
}

func (node *machine) run() (err error) {
	// The node is killed when the thread ends that has started it.
	runtime.LockOSThread()
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM, unix.SIGINT)
	hungUp := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(hungUp) }()

	if err := removeAbandonedGroups(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeGroup(groupOf(os.Getpid()))) }()
	if err := createGroup(groupOf(os.Getpid())); err != nil {
		return err
	}

	for at, passage := range node.out {
		if err := listen("unix", node.socket("out", at), "tcp", passage.to); err != nil {
			return err
		}
	}
	for at, passage := range node.in {
		if err := listen("tcp", passage.from, "unix", node.socket("in", at)); err != nil {
			return err
		}
	}

	program, err := os.Executable()
	if err != nil {
		return err
	}
	first := exec.Command(program, append([]string{"node-init"}, os.Args[1:]...)...)
	first.Args = append(first.Args, "--cgroup-root=/"+groupOf(os.Getpid()))
	first.Stdout, first.Stderr = os.Stdout, os.Stderr
	first.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	if err := first.Start(); err != nil {
		return fmt.Errorf("start a process with its own namespaces: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("the node has ended: %w", err)
	case <-told:
	case <-hungUp:
	}
	// The kernel kills all processes of the node before this one has ended.
	_ = first.Process.Kill()
	<-ended
	return nil
}

// socket returns the middle of a passage. A socket with a path is reached from any network.
func (node *machine) socket(direction string, at int) string {
	return filepath.Join(node.folder, fmt.Sprintf("%s-%d.sock", direction, at))
}

// runNodeInit is the first process of a node. It prepares what it sees of the machine, and starts everything else.
func runNodeInit() int {
	err := func() error {
		node, err := parseNode()
		if err != nil {
			return err
		}
		if err := errors.Join(node.mount(), unix.Sethostname([]byte(node.name)), node.connect()); err != nil {
			return err
		}
		return node.serve()
	}()
	fmt.Fprintln(os.Stderr, "control-plane node:", err)
	return 1
}

// mount hides what the programs of the node would change.
func (node *machine) mount() error {
	mount := func(source, target, kind string, flags uintptr) error {
		if err := unix.Mount(source, target, kind, flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
		return nil
	}
	// Nothing of it reaches the machine, but all of it the containers that ask for that.
	if err := errors.Join(mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE), mount("", "/", "", unix.MS_REC|unix.MS_SHARED)); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC); err != nil {
		return err
	}
	for _, folder := range hidden {
		if err := mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV); err != nil {
			return err
		}
	}
	for name, value := range settings {
		file := filepath.Join(node.folder, "sysctl", name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value+"\n"), 0o644))
		if err != nil {
			return err
		}
		if err := mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND); err != nil {
			return err
		}
	}
	return nil
}

// connect gives the node its addresses, and its ends of passages.
func (node *machine) connect() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	set := func(name string, request uint, value func(*unix.Ifreq) error) error {
		ifreq, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := value(ifreq); err != nil {
			return err
		}
		return unix.IoctlIfreq(socket, request, ifreq)
	}
	up := func(ifreq *unix.Ifreq) error { ifreq.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
	if err := set("lo", unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("start the loopback interface: %w", err)
	}
	for at, address := range node.addresses {
		alias := fmt.Sprintf("lo:%d", at+1)
		ip := func(address net.IP) func(*unix.Ifreq) error {
			return func(ifreq *unix.Ifreq) error { return ifreq.SetInet4Addr(address.To4()) }
		}
		err := errors.Join(
			set(alias, unix.SIOCSIFADDR, ip(net.ParseIP(address))),
			set(alias, unix.SIOCSIFNETMASK, ip(net.IPv4bcast)),
		)
		if err != nil {
			return fmt.Errorf("set the address %s: %w", address, err)
		}
	}
	for at, passage := range node.out {
		if err := listen("tcp", passage.from, "unix", node.socket("out", at)); err != nil {
			return err
		}
	}
	for at, passage := range node.in {
		if err := listen("unix", node.socket("in", at), "tcp", passage.to); err != nil {
			return err
		}
	}
	return nil
}

// serve starts containerd and, when the images are there, the kubelet. It returns when one of them has ended.
func (node *machine) serve() error {
	path := []string{filepath.Join(node.tools, "usr/sbin"), filepath.Join(node.tools, "usr/bin"), os.Getenv("PATH")}
	err := errors.Join(
		os.Setenv("PATH", strings.Join(path, ":")),
		// For libraries that are not installed on the machine.
		os.Setenv("LD_LIBRARY_PATH", strings.Join(libraries(node.tools), ":")),
	)
	if err != nil {
		return err
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(node.folder, "containerd.log"))
	if err != nil {
		return err
	}
	start := func(log *os.File, program string, arguments ...string) (int, error) {
		process, err := os.StartProcess(program, append([]string{program}, arguments...), &os.ProcAttr{
			Files: []*os.File{nothing, log, log},
		})
		if err != nil {
			return 0, err
		}
		return process.Pid, nil
	}
	containerd, err := start(log, filepath.Join(node.tools, "usr/bin/containerd"), "--config", filepath.Join(node.folder, "config.toml"))
	if err != nil {
		return err
	}
	socket := filepath.Join(node.folder, "containerd.sock")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("unix", socket)
		if err == nil {
			connection.Close()
			break
		}
		if time.Since(began) > startPatience {
			return fmt.Errorf("containerd does not listen; its log is %s", log.Name())
		}
	}
	for _, image := range node.images {
		ctr := exec.Command(filepath.Join(node.tools, "usr/bin/ctr"), "--address", socket, "--namespace", "k8s.io", "images", "import", image)
		if output, err := ctr.CombinedOutput(); err != nil {
			return fmt.Errorf("import %s: %w: %s", image, err, output)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	kubelet, err := start(os.Stderr, program, append([]string{"kubelet"}, node.kubelet...)...)
	if err != nil {
		return err
	}
	// The first process is also the parent of all whose parent has ended.
	for {
		var status unix.WaitStatus
		switch ended, err := unix.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case ended == containerd:
			return fmt.Errorf("containerd ended with %d; its log is %s", status.ExitStatus(), log.Name())
		case ended == kubelet:
			return fmt.Errorf("the kubelet ended with %d", status.ExitStatus())
		}
	}
}

func libraries(tools string) []string {
	found, _ := filepath.Glob(filepath.Join(tools, "usr/lib/*-linux-gnu*"))
	return found
}

// listen forwards connections from one address to another one.
func listen(network, address, toNetwork, to string) error {
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	go forward(listener, toNetwork, to)
	return nil
}

// forward copies between each connection that it accepts and a connection to an address.
func forward(listener net.Listener, network, address string) {
	for {
		one, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer one.Close()
			other, err := net.Dial(network, address)
			if err != nil {
				return
			}
			defer other.Close()
			go func() { _, _ = io.Copy(other, one); closeWrite(other) }()
			_, _ = io.Copy(one, other)
			closeWrite(one)
		}()
	}
}

func closeWrite(connection net.Conn) {
	if half, ok := connection.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
