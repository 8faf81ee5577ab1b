#!/usr/bin/env bash
# kube-apiserver, the proxy of services: a service that does not exist has no endpoints, unless its port is a number.
#
# A request to `services/NAME/proxy` for a service that nobody made, or in a namespace that nobody made, is answered
# by 503 ServiceUnavailable and "no endpoints available", as for a service whose pods are not ready yet. So a client
# with a mistyped name tries again and again, as it should after a 503. The service is looked up only to translate
# the number of a port: `services/NAME:80/proxy` says 404 NotFound, as `services/NAME` without proxy does, and as the
# proxies of pods and nodes do.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/cluster.sh"
work=$(mktemp -d)
trap 'stop_cluster; rm -rf "$work"' EXIT

start_cluster "$work"
asked() { # What the API server answers for this path below the namespaces.
  curl -ks -H 'Authorization: Bearer word' "$ADDRESS/api/v1/namespaces/$1" | python3 -c '
import json, sys
answer = json.load(sys.stdin)
print(sys.argv[1] + ":", answer["code"], answer["message"])' "$1"
}
ask POST api/v1/namespaces/default/services '{"metadata": {"name": "there"}, "spec": {"ports": [{"name": "http", "port": 80}]}}' >/dev/null
seen=$(for path in default/services/there/proxy default/services/missing/proxy default/services/missing:http/proxy \
  nowhere/services/missing/proxy default/services/missing:80/proxy default/services/missing default/pods/missing/proxy; do
  asked $path
done)
echo "kube-apiserver $CLUSTER, for the service there, which has no pods, and one that is missing:"
echo "$seen"
[ "$seen" = 'default/services/there/proxy: 503 no endpoints available for service "there"
default/services/missing/proxy: 503 no endpoints available for service "missing"
default/services/missing:http/proxy: 503 no endpoints available for service "missing"
nowhere/services/missing/proxy: 503 no endpoints available for service "missing"
default/services/missing:80/proxy: 404 services "missing" not found
default/services/missing: 404 services "missing" not found
default/pods/missing/proxy: 404 pods "missing" not found' ] || { echo "This has changed." && exit 1; }
