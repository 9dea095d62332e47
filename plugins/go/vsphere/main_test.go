package main

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"k8s.io/cloud-provider-vsphere/pkg/cloudprovider/vsphere"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/cloudprovider"
)

func TestTheTextOfAnErrorDecidesItsCase(t *testing.T) {
	for text, want := range map[string]error{
		"ServerFaultCode: Cannot complete login due to an incorrect user name or password.": skydock.ErrDenied,
		"dial tcp: connection refused": skydock.ErrUnavailable,
		"other":                        nil,
	} {
		if got := classify(errors.New(text)); !errors.Is(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestTheConfigurationNamesTheSecretsWithLogins(t *testing.T) {
	secret := func(namespace, name string) cloudprovider.Object {
		return cloudprovider.Object{Kind: "v1/Secret", Namespace: namespace, Name: name}
	}
	for name, test := range map[string]struct {
		config string
		want   []cloudprovider.Object
	}{
		"one for all": {
			"global:\n  secretName: login\n  secretNamespace: kube-system\nvcenter:\n  a:\n    server: 192.0.2.1\n    datacenters: [dc]\n",
			[]cloudprovider.Object{secret("kube-system", "login")},
		},
		"one each": {
			"global:\n  port: 443\nvcenter:\n  a:\n    server: 192.0.2.1\n    datacenters: [dc]\n    secretName: a\n    secretNamespace: ops\n" +
				"  b:\n    server: 192.0.2.2\n    datacenters: [dc]\n    secretName: b\n    secretNamespace: ops\n",
			[]cloudprovider.Object{secret("ops", "a"), secret("ops", "b")},
		},
		"INI": {
			"[Global]\nsecret-name = login\nsecret-namespace = kube-system\n[VirtualCenter \"192.0.2.1\"]\ndatacenters = dc\n",
			[]cloudprovider.Object{secret("kube-system", "login")},
		},
		"none": {
			"[Global]\nuser = u\npassword = p\n[VirtualCenter \"192.0.2.1\"]\ndatacenters = dc\n", nil,
		},
		"not valid": {"{", nil},
		"empty":     {"", nil},
	} {
		if got, err := secrets(skydock.Settings{CloudConfig: test.config}); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestNodeLabelsAreAnOption(t *testing.T) {
	if known, err := option("node-labels", "a.example/b=c,d="); !known || err != nil {
		t.Fatal(known, err)
	}
	if want := map[string]string{"a.example/b": "c", "d": ""}; !maps.Equal(vsphere.AdditionalLabels, want) {
		t.Error(vsphere.AdditionalLabels)
	}
	if known, err := option("node-labels", "a"); !known || err == nil {
		t.Error("a label without a value is accepted")
	}
	if known, _ := option("other", "a"); known {
		t.Error("an unknown option is accepted")
	}
}
