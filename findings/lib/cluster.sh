# Sourced. `start_cluster FOLDER` builds and starts etcd, kube-apiserver and kube-scheduler, with the feature
# gates of Kubernetes' own PodGroups, until the script ends. There are no controllers and no kubelets.
#
# `create RESOURCE < JSON` and `change RESOURCE NAME PATCH [STATUS]` write objects of the namespace default,
# `state` prints the pods with their nodes and reasons, and `group NAME` the condition of a PodGroup.
CLUSTER=v1.37.2
CLUSTER_STAGING=v0.37.2
GATES=GenericWorkload=true,DRAWorkloadResourceClaims=true
PODS=api/v1/namespaces/default/pods
GROUPS_=apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups

start_cluster() {
  local folder=$1 port=$((20000 + RANDOM % 10000))
  mkdir -p "$folder"
  build_cluster "$folder"
  ADDRESS=https://127.0.0.1:$port
  openssl genrsa -out "$folder/key" 2048 2>/dev/null
  echo 'word,admin,admin,system:masters' >"$folder/tokens"
  printf '%s' "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: '$ADDRESS',
    insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: word}}], contexts: [{name: c, context:
    {cluster: c, user: u}}]}" >"$folder/kubeconfig"
  "$folder/etcd" --data-dir="$folder/data" --listen-client-urls="unix://$folder/etcd.sock:0" \
    --advertise-client-urls="unix://$folder/etcd.sock:0" --listen-peer-urls="unix://$folder/peer.sock:0" \
    >"$folder/etcd.log" 2>&1 &
  PROGRAMS+=($!)
  "$folder/kube-apiserver" --etcd-servers="unix://$folder/etcd.sock:0" --secure-port="$port" --bind-address=127.0.0.1 \
    --cert-dir="$folder/certificates" --service-account-key-file="$folder/key" \
    --service-account-signing-key-file="$folder/key" --service-account-issuer=https://finding \
    --token-auth-file="$folder/tokens" --authorization-mode=AlwaysAllow --disable-admission-plugins=ServiceAccount,TaintNodesByCondition \
    --feature-gates="$GATES" --runtime-config=scheduling.k8s.io/v1beta1=true >"$folder/apiserver.log" 2>&1 &
  PROGRAMS+=($!)
  for _ in $(seq 600); do ask GET readyz >/dev/null 2>&1 && break || sleep 0.2; done
  "$folder/kube-scheduler" --kubeconfig="$folder/kubeconfig" --secure-port=0 --leader-elect=false \
    --feature-gates="$GATES" >"$folder/scheduler.log" 2>&1 &
  PROGRAMS+=($!)
  ask POST api/v1/nodes '{"metadata": {"name": "node"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}' >/dev/null
}

PROGRAMS=()
stop_cluster() { # Call it when the script ends.
  [ ${#PROGRAMS[@]} = 0 ] || { kill -9 "${PROGRAMS[@]}" && wait "${PROGRAMS[@]}"; } 2>/dev/null || true
}

build_cluster() {
  (
    cd "$1"
    export GOFLAGS=-mod=mod CGO_ENABLED=0
    go mod init finding >/dev/null 2>&1
    its_own=$(go mod download -json "k8s.io/kubernetes@$CLUSTER" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
    {
      printf 'require k8s.io/kubernetes %s\n' "$CLUSTER"
      sed -n 's#^\t\(go.etcd.io/etcd/[a-z/0-9]* v[0-9.]*\).*#require \1#p' "$its_own"
      sed -n "s#^\t\(k8s.io/[a-z-]*\) => ./staging/.*#replace \1 => \1 $CLUSTER_STAGING#p" "$its_own"
    } >>go.mod
    for package in go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-scheduler; do
      name=${package##*/}
      go get "$package" >>build.log 2>&1
      go build -trimpath -ldflags '-s -w' -o "${name/#v3/etcd}" "$package" >>build.log 2>&1
    done
  ) || { tail -20 "$1/build.log" >&2 && return 1; }
}

ask() { # METHOD PATH [BODY [TYPE]]
  curl -ksSf -X "$1" -H 'Authorization: Bearer word' -H "Content-Type: application/${4:-json}" ${3:+-d "$3"} "$ADDRESS/$2"
}

# group_of NAME POLICY, pod NAME GROUP [MORE OF ITS SPEC]
group_of() { ask POST $GROUPS_ "{\"metadata\": {\"name\": \"$1\"}, \"spec\": {\"schedulingPolicy\": $2}}" >/dev/null; }
pod() {
  ask POST $PODS "{\"metadata\": {\"name\": \"$1\"}, \"spec\": {\"schedulingGroup\": {\"podGroupName\": \"$2\"},
    \"containers\": [{\"name\": \"c\", \"image\": \"i\", \"resources\": {\"requests\": {\"cpu\": \"1\"}}}]${3:+, $3}}}" >/dev/null
}
ended() { ask PATCH "$PODS/$1/status" "{\"status\": {\"phase\": \"$2\"}}" merge-patch+json >/dev/null; }

state() { # A line: NAME of a pod, then its node, or why it has none.
  ask GET "$PODS/$1" | python3 -c '
import json, sys
pod = json.load(sys.stdin)
said = [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
node = pod["spec"].get("nodeName")
print(f"on {node}" if node else "waits, " + (said[0]["reason"] + ": " + said[0]["message"] if said else "and nothing says why"))'
}
