// The oracle asks kube-scheduler's own plugins about a pod and a few nodes: one JSON question per line in, one JSON
// answer per line out. regenerate.py builds it, asks it, and keeps the answers in kube-scheduler.json.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type question struct {
	Plugin    string          `json:"plugin"`
	Arguments json.RawMessage `json:"arguments"`
	Nodes     []*corev1.Node  `json:"nodes"`
	Pods      []*corev1.Pod   `json:"pods"`
	Pod       *corev1.Pod     `json:"pod"`
}

type verdict struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

type answer struct {
	PreFilter *verdict           `json:"preFilter,omitempty"`
	Filter    map[string]verdict `json:"filter,omitempty"`
	PreScore  *verdict           `json:"preScore,omitempty"`
	Raw       map[string]int64   `json:"raw,omitempty"`
	Scores    map[string]int64   `json:"scores,omitempty"`
}

func plugin(ctx context.Context, q question, handle fwk.Handle, features feature.Features) (fwk.Plugin, error) {
	read := func(arguments runtime.Object) runtime.Object {
		if err := json.Unmarshal(q.Arguments, arguments); err != nil {
			panic(err)
		}
		return arguments
	}
	switch q.Plugin {
	case "NodeResourcesFit":
		return noderesources.NewFit(ctx, read(&config.NodeResourcesFitArgs{}), handle, features)
	case "NodeResourcesBalancedAllocation":
		return noderesources.NewBalancedAllocation(ctx, read(&config.NodeResourcesBalancedAllocationArgs{}), handle, features)
	case "NodeAffinity":
		return nodeaffinity.New(ctx, read(&config.NodeAffinityArgs{}), handle, features)
	case "TaintToleration":
		return tainttoleration.New(ctx, nil, handle, features)
	case "NodeDeclaredFeatures":
		return nodedeclaredfeatures.New(ctx, nil, handle, features)
	case "NodePorts":
		return nodeports.New(ctx, nil, handle, features)
	case "NodeName":
		return nodename.New(ctx, nil, handle, features)
	case "NodeUnschedulable":
		return nodeunschedulable.New(ctx, nil, handle, features)
	case "ImageLocality":
		return imagelocality.New(ctx, nil, handle)
	}
	return nil, fmt.Errorf("no plugin %q", q.Plugin)
}

func said(status *fwk.Status) verdict {
	if status == nil {
		return verdict{Code: fwk.Success.String()}
	}
	return verdict{Code: status.Code().String(), Reasons: status.Reasons()}
}

func filter(ctx context.Context, p fwk.Plugin, q question, nodes []fwk.NodeInfo, a *answer) {
	filtering, ok := p.(fwk.FilterPlugin)
	if !ok {
		return
	}
	state := framework.NewCycleState()
	var named *fwk.PreFilterResult
	if before, ok := p.(fwk.PreFilterPlugin); ok {
		result, status := before.PreFilter(ctx, state, q.Pod, nodes)
		spoken := said(status)
		a.PreFilter = &spoken
		if !status.IsSuccess() {
			return
		}
		named = result
	}
	a.Filter = map[string]verdict{}
	for _, node := range nodes {
		name := node.Node().Name
		if !named.AllNodes() && !named.NodeNames.Has(name) {
			// the scheduler says this of nodes that a PreFilter result leaves out
			a.Filter[name] = verdict{
				Code:    fwk.UnschedulableAndUnresolvable.String(),
				Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", []string{q.Plugin})},
			}
			continue
		}
		a.Filter[name] = said(filtering.Filter(ctx, state, q.Pod, node))
	}
}

func score(ctx context.Context, p fwk.Plugin, q question, nodes []fwk.NodeInfo, a *answer) error {
	scoring, ok := p.(fwk.ScorePlugin)
	if !ok {
		return nil
	}
	state := framework.NewCycleState()
	if before, ok := p.(fwk.PreScorePlugin); ok {
		status := before.PreScore(ctx, state, q.Pod, nodes)
		spoken := said(status)
		a.PreScore = &spoken
		if !status.IsSuccess() {
			return nil
		}
	}
	a.Raw, a.Scores = map[string]int64{}, map[string]int64{}
	list := fwk.NodeScoreList{}
	for _, node := range nodes {
		value, status := scoring.Score(ctx, state, q.Pod, node)
		if !status.IsSuccess() {
			return status.AsError()
		}
		a.Raw[node.Node().Name] = value
		list = append(list, fwk.NodeScore{Name: node.Node().Name, Score: value})
	}
	if extensions := scoring.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, q.Pod, list); !status.IsSuccess() {
			return status.AsError()
		}
	}
	for _, one := range list {
		a.Scores[one.Name] = one.Score
	}
	return nil
}

func ask(ctx context.Context, q question) (answer, error) {
	var a answer
	snapshot := cache.NewSnapshot(q.Pods, q.Nodes)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		return a, err
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableDRAExtendedResource = false // there are no device classes here
	p, err := plugin(ctx, q, handle, features)
	if err != nil {
		return a, err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return a, err
	}
	filter(ctx, p, q, nodes, &a)
	return a, score(ctx, p, q, nodes, &a)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		a, err := ask(ctx, q)
		cancel()
		if err != nil {
			panic(fmt.Sprintf("%s: %v", q.Plugin, err))
		}
		if err := out.Encode(a); err != nil {
			panic(err)
		}
	}
}
