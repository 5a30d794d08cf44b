// Runs Karmada's own scheduling algorithm over a scenario of ours, so that both can be measured in one run.
//
// Standard input: {"clusters": [...], "strategies": [{"name", "placements", "bindings": [{"placement", "spec"}]}]}.
// Standard output: one JSON line per strategy with the decisions and the CPU seconds they took.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	clusterlister "github.com/karmada-io/karmada/pkg/generated/listers/cluster/v1alpha1"
	schedulercache "github.com/karmada-io/karmada/pkg/scheduler/cache"
	"github.com/karmada-io/karmada/pkg/scheduler/core"
	"github.com/karmada-io/karmada/pkg/scheduler/framework/plugins"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

type binding struct {
	Placement int                              `json:"placement"`
	Spec      workv1alpha2.ResourceBindingSpec `json:"spec"`
}

type strategy struct {
	Name       string                     `json:"name"`
	Placements []policyv1alpha1.Placement `json:"placements"`
	Bindings   []binding                  `json:"bindings"`
}

type scenario struct {
	Clusters   []clusterv1alpha1.Cluster `json:"clusters"`
	Strategies []strategy                `json:"strategies"`
}

type outcome struct {
	Strategy   string           `json:"strategy"`
	Count      int              `json:"count"`
	CPUSeconds float64          `json:"cpuSeconds"`
	Decisions  []map[string]int `json:"decisions"`
	Errors     []string         `json:"errors"`
}

func main() {
	most := flag.Int("most", 200, "decide so many bindings of each strategy")
	klog.InitFlags(nil)
	flag.Parse()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if err := run(*most); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(most int) error {
	var input scenario
	if err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&input); err != nil {
		return fmt.Errorf("the scenario cannot be read: %w", err)
	}
	algorithm, err := algorithmOver(input.Clusters)
	if err != nil {
		return err
	}
	for _, one := range input.Strategies {
		encoded, err := json.Marshal(decided(algorithm, one, most))
		if err != nil {
			return err
		}
		fmt.Println(string(encoded))
	}
	return nil
}

func algorithmOver(clusters []clusterv1alpha1.Cluster) (core.ScheduleAlgorithm, error) {
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range clusters {
		if err := index.Add(&clusters[i]); err != nil {
			return nil, err
		}
	}
	known := schedulercache.NewCache(clusterlister.NewClusterLister(index))
	return core.NewGenericScheduler(known, plugins.NewInTreeRegistry())
}

func decided(algorithm core.ScheduleAlgorithm, one strategy, most int) outcome {
	if most > len(one.Bindings) {
		most = len(one.Bindings)
	}
	asks := one.Bindings[:most]
	for i := range asks {
		asks[i].Spec.Placement = &one.Placements[asks[i].Placement]
	}
	found := outcome{Strategy: one.Name, Count: most}
	begun := cpuSeconds()
	results := make([]core.ScheduleResult, most)
	failures := make([]error, most)
	for i := range asks {
		status := workv1alpha2.ResourceBindingStatus{}
		results[i], failures[i] = algorithm.Schedule(
			context.Background(), &asks[i].Spec, &status, &core.ScheduleAlgorithmOption{})
	}
	found.CPUSeconds = cpuSeconds() - begun
	for i := range results {
		shares := map[string]int{}
		for _, target := range results[i].SuggestedClusters {
			shares[target.Name] = int(target.Replicas)
		}
		found.Decisions = append(found.Decisions, shares)
		text := ""
		if failures[i] != nil {
			text = failures[i].Error()
		}
		found.Errors = append(found.Errors, text)
	}
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
