// Command volcano runs Volcano's own actions and plugins on scenarios, over the cache of its own tests.
package main

import (
	"flag"
	"io"
	"log"

	"k8s.io/klog/v2"
	"quadrant.dev/oracle/protocol"
	"volcano.sh/volcano/pkg/scheduler/metrics"
)

func main() {
	flags := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	klog.SetOutput(io.Discard)
	metrics.InitKubeSchedulerRelatedMetrics()
	protocol.Serve(run)
}
