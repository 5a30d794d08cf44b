// Runs Open Cluster Management's own placement scheduling over a scene of ours, so that both can be measured in one run.
//
// Standard input: {"clusters", "decisions", "scores", "placements"} as on the wire.
// Standard output: one JSON line per placement with the chosen clusters and the CPU seconds that the decisions took.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"syscall"

	"k8s.io/client-go/tools/cache"
	kevents "k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	listersv1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	listersv1alpha1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1alpha1"
	listersv1beta1 "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"open-cluster-management.io/ocm/pkg/placement/controllers/metrics"
	"open-cluster-management.io/ocm/pkg/placement/controllers/scheduling"
)

type scene struct {
	Clusters   []clusterv1.ManagedCluster            `json:"clusters"`
	Decisions  []clusterv1beta1.PlacementDecision    `json:"decisions"`
	Scores     []clusterv1alpha1.AddOnPlacementScore `json:"scores"`
	Placements []clusterv1beta1.Placement            `json:"placements"`
}

type outcome struct {
	Variant    string   `json:"variant"`
	Count      int      `json:"count"`
	CPUSeconds float64  `json:"cpuSeconds"`
	Clusters   []string `json:"clusters"`
	Status     string   `json:"status"`
}

func main() {
	times := flag.Int("times", 5, "decide each placement so often")
	klog.InitFlags(nil)
	flag.Parse()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if err := run(*times); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(times int) error {
	var input scene
	if err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&input); err != nil {
		return fmt.Errorf("the scene cannot be read: %w", err)
	}
	clusters, decisions, scores := shelf(), shelf(), shelf()
	fleet := make([]*clusterv1.ManagedCluster, 0, len(input.Clusters))
	for i := range input.Clusters {
		fleet = append(fleet, &input.Clusters[i])
		if err := clusters.Add(&input.Clusters[i]); err != nil {
			return err
		}
	}
	for i := range input.Decisions {
		if err := decisions.Add(&input.Decisions[i]); err != nil {
			return err
		}
	}
	for i := range input.Scores {
		if err := scores.Add(&input.Scores[i]); err != nil {
			return err
		}
	}
	handle := scheduling.NewSchedulerHandler(
		nil,
		listersv1beta1.NewPlacementDecisionLister(decisions),
		listersv1alpha1.NewAddOnPlacementScoreLister(scores),
		listersv1.NewManagedClusterLister(clusters),
		&kevents.FakeRecorder{},
		metrics.NewScheduleMetrics(clock.RealClock{}),
	)
	scheduler := scheduling.NewPluginScheduler(handle)
	for i := range input.Placements {
		encoded, err := json.Marshal(decided(scheduler, &input.Placements[i], fleet, times))
		if err != nil {
			return err
		}
		fmt.Println(string(encoded))
	}
	return nil
}

func shelf() cache.Indexer {
	return cache.NewIndexer(
		cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func decided(
	scheduler scheduling.Scheduler, placement *clusterv1beta1.Placement, fleet []*clusterv1.ManagedCluster, times int,
) outcome {
	found := outcome{Variant: placement.Annotations["variant"], Count: times}
	begun := cpuSeconds()
	for i := 0; i < times; i++ {
		result, status := scheduler.Schedule(context.Background(), placement, fleet)
		found.Clusters = nil
		for _, cluster := range result.Decisions() {
			found.Clusters = append(found.Clusters, cluster.Name)
		}
		found.Status = status.Message()
	}
	found.CPUSeconds = cpuSeconds() - begun
	sort.Strings(found.Clusters)
	return found
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
