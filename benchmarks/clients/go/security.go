package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type security struct {
	Protocol string `json:"protocol"`
	CAFile   string `json:"cafile"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// clientOptions returns the options of every client.
func (w *work) clientOptions() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(w.Bootstrap)}
	if w.Security.Protocol == "PLAINTEXT" {
		return options, nil
	}
	pem, err := os.ReadFile(w.Security.CAFile)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", w.Security.CAFile)
	}
	options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}))
	if w.Security.Username != "" {
		user := scram.Auth{User: w.Security.Username, Pass: w.Security.Password}
		options = append(options, kgo.SASL(user.AsSha256Mechanism()))
	}
	return options, nil
}
