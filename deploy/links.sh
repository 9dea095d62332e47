#!/bin/sh
# Links the paths that executables have in images of other cloud-controller-managers to /skydock, below the directory $1, so that
# manifests with `command` work with another image.
set -eu

for path in \
    /cloud-controller-manager \
    /go-runner \
    /talos-cloud-controller-manager \
    /app/ccm \
    /usr/bin/openstack-cloud-controller-manager \
    /usr/local/bin/cloud-controller-manager \
    /usr/local/bin/oci-cloud-controller-manager
do
    mkdir -p "$1${path%/*}"
    ln -s /skydock "$1$path"
done

mkdir -p "$1/bin"
for provider in aws azure digitalocean gcp hcloud huawei ibm kubevirt nutanix openstack vsphere
do
    ln -s /skydock "$1/bin/$provider-cloud-controller-manager"
done
