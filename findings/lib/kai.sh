# Sourced. `kai_test FOLDER < TEST` runs a Go test against KAI's own packages; the test file begins
# with `package finding`. KubeRay is the version that this KAI is built with.
KAI=v0.12.0
KUBERAY=v1.4.2

kai_test() {
  mkdir -p "$1"
  cat >"$1/finding_test.go"
  (
    cd "$1"
    export GOFLAGS=-mod=mod
    go mod init finding >/dev/null 2>&1
    printf 'require (\n\tgithub.com/NVIDIA/KAI-scheduler %s\n\tgithub.com/ray-project/kuberay/ray-operator %s\n)\n' \
      "$KAI" "$KUBERAY" >>go.mod
    go test -vet=off -count=1 -run TestFinding -v . >"$1/stdout" 2>"$1/stderr" || true
    grep '^SEEN' "$1/stdout" || { tail -20 "$1/stdout" "$1/stderr" >&2 && return 1; }
  )
}
