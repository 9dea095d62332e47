package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupPrefix is that of the control groups of nodes. The rest of the name is the ID of the process that removes it.
const groupPrefix = "skydock-node-"

func groupOf(process int) string { return groupPrefix + strconv.Itoa(process) }

// hierarchies returns where control groups are mounted: one place for each controller, or one for all (version 2).
func hierarchies() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var places []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		mount, kind, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if strings.HasPrefix(kind, "cgroup") && len(fields) > 4 && !slices.Contains(places, fields[4]) {
			places = append(places, fields[4])
		}
	}
	if len(places) == 0 {
		return nil, errors.New("no control groups are mounted")
	}
	return places, lines.Err()
}

// createGroup creates a control group for the Pods of a node.
func createGroup(name string) error {
	places, err := hierarchies()
	if err != nil {
		return err
	}
	for _, place := range places {
		group := filepath.Join(place, name)
		if err := os.Mkdir(group, 0o755); err != nil {
			return err
		}
		// Version 1: a group has no processors and memory nodes until it is told.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(place, file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
				return err
			}
		}
		// Version 2: groups have only the controllers that the parent enables.
		controllers, _ := os.ReadFile(filepath.Join(place, "cgroup.controllers"))
		for _, controller := range strings.Fields(string(controllers)) {
			enable := filepath.Join(place, "cgroup.subtree_control")
			if err := os.WriteFile(enable, []byte("+"+controller), 0o644); err != nil {
				return fmt.Errorf("enable the controller %s for control groups: %w", controller, err)
			}
		}
	}
	return nil
}

// removeAbandonedGroups removes the control groups of nodes whose process was killed.
func removeAbandonedGroups() error {
	places, err := hierarchies()
	if err != nil {
		return err
	}
	for _, place := range places {
		found, _ := filepath.Glob(filepath.Join(place, groupPrefix+"*"))
		for _, group := range found {
			process, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(group), groupPrefix))
			if err != nil || !errors.Is(unix.Kill(process, 0), unix.ESRCH) {
				continue
			}
			if err := removeGroup(filepath.Base(group)); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGroup removes a control group and those below it. The kernel may need a moment after the end of the processes.
func removeGroup(name string) error {
	places, err := hierarchies()
	if err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var left error
		for _, place := range places {
			left = errors.Join(left, removeTree(filepath.Join(place, name)))
		}
		if left == nil || time.Since(began) > 10*time.Second {
			return left
		}
	}
}

// removeTree removes directories, the deepest first. The files in a control group go with it.
func removeTree(root string) error {
	var groups []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, group := range slices.Backward(groups) {
		if failed := unix.Rmdir(group); failed != nil && failed != unix.ENOENT {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", group, failed))
		}
	}
	return err
}
