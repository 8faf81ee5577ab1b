# Sourced. `kubernetes_test FOLDER < TEST` runs a Go test against Kubernetes' own packages; the test
# file begins with `package finding`.
KUBERNETES=v1.36.1
STAGING=v0.36.1

kubernetes_test() {
  mkdir -p "$1"
  cat >"$1/finding_test.go"
  (
    cd "$1"
    export GOFLAGS=-mod=mod
    go mod init finding >/dev/null 2>&1
    its_own=$(go mod download -json "k8s.io/kubernetes@$KUBERNETES" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
    {
      printf 'require k8s.io/kubernetes %s\n' "$KUBERNETES"
      sed -n "s#^\t\(k8s.io/[a-z-]*\) => ./staging/.*#replace \1 => \1 $STAGING#p" "$its_own"
    } >>go.mod
    go test -vet=off -count=1 -run TestFinding -v . >"$1/stdout" 2>"$1/stderr" || true
    grep '^SEEN' "$1/stdout" || { tail -20 "$1/stdout" "$1/stderr" >&2 && return 1; }
  )
}
