#!/usr/bin/env bash
# Volcano, plugin tdm: a revocable zone that passes midnight is closed from midnight on.
#
# `tdm.revocable-zone.night: 22:00-06:00` should let jobs use the zone's nodes from 22:00 until 06:00
# of the next morning. The plugin puts both times on today's date and moves the end to tomorrow, so
# that at 02:00 it looks at the zone of the coming evening: "current time beyond revocable zone". Only
# the part before midnight is open. Shown with a zone that began yesterday, one hour from now, and
# lasts until half an hour from now: it is open by its words, at whatever time this is run, and the
# same pod is bound where the zone is the whole day.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/volcano.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seen=$(volcano_test "$work/m" <<'GO'
package finding

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/plugins/tdm"
	"volcano.sh/volcano/pkg/scheduler/util"
)

func TestFinding(t *testing.T) {
	// The clock of the process is noon, so that neither time passes midnight by itself.
	time.Local = time.FixedZone("noon", 12*3600-int(time.Now().UTC().Sub(time.Now().UTC().Truncate(24*time.Hour)).Seconds()))
	now := time.Now()
	overnight := now.Add(time.Hour).Format("15:04") + "-" + now.Add(30*time.Minute).Format("15:04")
	for name, zone := range map[string]string{"whole day": "00:00-23:59", "overnight": overnight} {
		revocable := pod("p")
		revocable.Annotations[v1beta1.RevocableZone] = "*"
		nodes := []*v1.Node{node("n1", map[string]string{v1beta1.RevocableZone: "night"})}
		arguments := map[string]interface{}{"tdm.revocable-zone.night": zone}
		fmt.Println("SEEN", name, placed(tdm.PluginName, tdm.New, arguments, util.BuildQueue("q", 1, nil), nodes, revocable))
	}
}
GO
)
echo "Volcano $VOLCANO, a pod that may use a zone that is open now:"
echo "$seen"
[ "$(sort <<<"$seen")" = "SEEN overnight map[]
SEEN whole day map[p:n1]" ] || { echo "This has changed." && exit 1; }
