package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of the certificates; a test cluster lives minutes.
const lifetime = 7 * 24 * time.Hour

// runKeys writes all that a cluster on loopback needs to trust itself into one folder:
// a certificate authority (ca.crt, ca.key), the API server's certificate (apiserver.crt, apiserver.key) and the
// key pair that signs service account tokens (sa.key, sa.pub).
func runKeys() int {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: control-plane keys FOLDER")
		return 2
	}
	if err := writeKeys(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane keys:", err)
		return 1
	}
	return 0
}

func writeKeys(folder string) error {
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "skydock-test-ca"},
		NotBefore:             now.Add(-time.Hour), // clocks on one machine still step
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver", Organization: []string{"system:masters"}},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		// The API server is also a client, of kubelets.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		// The last one is the cluster IP of the Service `kubernetes`, at which Pods on real nodes look for it.
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)},
	}
	authorityKey, err := newKey()
	if err != nil {
		return err
	}
	serverKey, err := newKey()
	if err != nil {
		return err
	}
	tokenKey, err := newKey()
	if err != nil {
		return err
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	tokenPublic, err := x509.MarshalPKIXPublicKey(tokenKey.Public())
	if err != nil {
		return err
	}
	files := []struct {
		name, kind string
		der        []byte
	}{
		{"ca.crt", "CERTIFICATE", authorityDER},
		{"apiserver.crt", "CERTIFICATE", serverDER},
		{"sa.pub", "PUBLIC KEY", tokenPublic},
	}
	for _, key := range []struct {
		name string
		key  *ecdsa.PrivateKey
	}{{"ca.key", authorityKey}, {"apiserver.key", serverKey}, {"sa.key", tokenKey}} {
		der, err := x509.MarshalECPrivateKey(key.key)
		if err != nil {
			return err
		}
		files = append(files, struct {
			name, kind string
			der        []byte
		}{key.name, "EC PRIVATE KEY", der})
	}
	for _, file := range files {
		block := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(filepath.Join(folder, file.name), block, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}
