// Command kai runs KAI's own actions and plugins on scenarios, over the cache of its scheduler.
package main

import (
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins"
	"quadrant.dev/oracle/protocol"
)

func main() {
	actions.InitDefaultActions()
	plugins.InitDefaultPlugins()
	protocol.Serve(run)
}
