#!/usr/bin/env bash
# KAI, podgroupcontroller: the option --metrics-bind-address is read and never used.
#
# KAI's podgrouper, binder, admission and operator hand their option of this name to controller-runtime, where 0 means
# that no metrics are served. The podgroupcontroller has the same option, with a help text, and takes
# controller-runtime's default instead, which is port 8080 of all addresses. Where that port is taken, as on the
# network of a host, it ends, whatever address it was given.
#
# Port 8080 is held here. An API server that has the resources, and none of each, is in the test.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/kai.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(kai_test "$work/m" <<'GO'
package finding

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/KAI-scheduler/cmd/podgroupcontroller/app"
	"k8s.io/client-go/rest"
)

func TestFinding(t *testing.T) {
	if held, err := net.Listen("tcp", ":8080"); err == nil { // Whoever else holds it does as well.
		defer held.Close()
	}
	server := httptest.NewServer(http.HandlerFunc(names))
	defer server.CloseClientConnections()
	for _, address := range []string{"0", "127.0.0.1:0"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		set := flag.NewFlagSet("podgroupcontroller", flag.PanicOnError)
		options := app.InitOptions(set)
		_ = set.Parse([]string{"--metrics-bind-address=" + address, "--health-probe-bind-address=0",
			"--enable-podgroup-webhook=false", "--skip-controller-name-validation"})
		fmt.Printf("SEEN %s: %v\n", address, app.Run(options, &rest.Config{Host: server.URL}, ctx))
	}
}

// names answers which resources there are, and that there is none of each.
func names(answer http.ResponseWriter, request *http.Request) {
	group := func(name, version string) string {
		return fmt.Sprintf(`{"name": "%s", "versions": [{"groupVersion": "%s/%s", "version": "%s"}]}`, name, name, version, version)
	}
	resource := func(name, kind string, namespaced bool) string {
		return fmt.Sprintf(`{"name": "%s", "kind": "%s", "namespaced": %v, "verbs": ["get", "list", "watch"]}`, name, kind, namespaced)
	}
	text, found := map[string]string{
		"/api":                             `{"versions": ["v1"]}`,
		"/apis":                            `{"groups": [` + group("scheduling.k8s.io", "v1") + "," + group("scheduling.run.ai", "v2alpha2") + `]}`,
		"/api/v1":                          `{"groupVersion": "v1", "resources": [` + resource("pods", "Pod", true) + "," + resource("nodes", "Node", false) + `]}`,
		"/apis/scheduling.k8s.io/v1":       `{"groupVersion": "scheduling.k8s.io/v1", "resources": [` + resource("priorityclasses", "PriorityClass", false) + `]}`,
		"/apis/scheduling.run.ai/v2alpha2": `{"groupVersion": "scheduling.run.ai/v2alpha2", "resources": [` + resource("podgroups", "PodGroup", true) + `]}`,
	}[request.URL.Path]
	kind, listed := map[string]string{"pods": "Pod", "nodes": "Node", "priorityclasses": "PriorityClass", "podgroups": "PodGroup"}[path.Base(request.URL.Path)]
	if listed {
		version := strings.TrimPrefix(strings.TrimPrefix(path.Dir(request.URL.Path), "/apis/"), "/api/")
		text = fmt.Sprintf(`{"kind": "%sList", "apiVersion": "%s", "metadata": {"resourceVersion": "1"}, "items": []}`, kind, version)
	} else if !found {
		http.NotFound(answer, request)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	if request.URL.Query().Get("watch") != "" {
		answer.(http.Flusher).Flush()
		select {
		case <-request.Context().Done():
		case <-time.After(30 * time.Second):
		}
		return
	}
	fmt.Fprint(answer, text)
}
GO
)
echo "KAI $KAI, podgroupcontroller --metrics-bind-address=..., where port 8080 is taken:"
echo "$seen"
wrong="failed to start metrics server: failed to create listener: listen tcp :8080: bind: address already in use"
[ "$seen" = "SEEN 0: $wrong
SEEN 127.0.0.1:0: $wrong" ] || { echo "This has changed." && exit 1; }
