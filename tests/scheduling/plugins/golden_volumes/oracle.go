// The oracle asks kube-scheduler's own volume plugins about a pod, a few nodes and the storage objects there: one JSON
// question per line in, one JSON answer per line out. regenerate.py builds it, asks it, and keeps the answers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type question struct {
	Plugin      string                          `json:"plugin"`
	Nodes       []*corev1.Node                  `json:"nodes"`
	Pods        []*corev1.Pod                   `json:"pods"`
	Pod         *corev1.Pod                     `json:"pod"`
	Volumes     []*corev1.PersistentVolume      `json:"volumes"`
	Claims      []*corev1.PersistentVolumeClaim `json:"claims"`
	Classes     []*storagev1.StorageClass       `json:"classes"`
	CSINodes    []*storagev1.CSINode            `json:"csiNodes"`
	Drivers     []*storagev1.CSIDriver          `json:"drivers"`
	Capacities  []*storagev1.CSIStorageCapacity `json:"capacities"`
	Attachments []*storagev1.VolumeAttachment   `json:"attachments"`
}

type verdict struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

type answer struct {
	PreFilter verdict            `json:"preFilter"`
	Filter    map[string]verdict `json:"filter,omitempty"`
	// What Reserve and PreBind write for the pod on the first node that was accepted.
	Node    string            `json:"node,omitempty"`
	Written map[string]string `json:"written,omitempty"`
}

func said(status *fwk.Status) verdict {
	if status == nil {
		return verdict{Code: fwk.Success.String()}
	}
	return verdict{Code: status.Code().String(), Reasons: status.Reasons()}
}

func objects(q question) []runtime.Object {
	var all []runtime.Object
	for _, one := range q.Nodes {
		all = append(all, one)
	}
	for _, one := range q.Volumes {
		all = append(all, one)
	}
	for _, one := range q.Claims {
		all = append(all, one)
	}
	for _, one := range q.Classes {
		all = append(all, one)
	}
	for _, one := range q.CSINodes {
		all = append(all, one)
	}
	for _, one := range q.Drivers {
		all = append(all, one)
	}
	for _, one := range q.Capacities {
		all = append(all, one)
	}
	for _, one := range q.Attachments {
		all = append(all, one)
	}
	return all
}

func plugin(ctx context.Context, name string, handle fwk.Handle, features feature.Features) (fwk.Plugin, error) {
	switch name {
	case "VolumeBinding":
		return volumebinding.New(ctx, &config.VolumeBindingArgs{BindTimeoutSeconds: 1}, handle, features)
	case "VolumeRestrictions":
		return volumerestrictions.New(ctx, nil, handle, features)
	case "VolumeZone":
		return volumezone.New(ctx, nil, handle, features)
	case "NodeVolumeLimits":
		return nodevolumelimits.NewCSI(ctx, nil, handle, features)
	}
	return nil, fmt.Errorf("no plugin %q", name)
}

// written tells what Reserve and PreBind write for a node; PreBind does not wait for anything afterwards.
func written(p fwk.Plugin, client *fake.Clientset, q question, state fwk.CycleState, node string) map[string]string {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if status := p.(fwk.ReservePlugin).Reserve(ctx, state, q.Pod, node); !status.IsSuccess() {
		panic(status.AsError())
	}
	client.ClearActions()
	p.(fwk.PreBindPlugin).PreBind(ctx, state, q.Pod, node)
	found := map[string]string{}
	for _, action := range client.Actions() {
		update, ok := action.(clienttesting.UpdateAction)
		if !ok {
			continue
		}
		switch one := update.GetObject().(type) {
		case *corev1.PersistentVolume:
			ours := one.Annotations["pv.kubernetes.io/bound-by-controller"]
			found["volume "+one.Name] = fmt.Sprintf("%s %s %s", one.Spec.ClaimRef.Name, one.Spec.ClaimRef.UID, ours)
		case *corev1.PersistentVolumeClaim:
			found["claim "+one.Name] = one.Annotations["volume.kubernetes.io/selected-node"]
		}
	}
	return found
}

func ask(ctx context.Context, q question) (answer, error) {
	var a answer
	client := fake.NewSimpleClientset(objects(q)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := cache.NewSnapshot(q.Pods, q.Nodes)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		return a, err
	}
	p, err := plugin(ctx, q.Plugin, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return a, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return a, err
	}
	state := framework.NewCycleState()
	_, status := p.(fwk.PreFilterPlugin).PreFilter(ctx, state, q.Pod, nodes)
	a.PreFilter = said(status)
	if !status.IsSuccess() {
		return a, nil
	}
	a.Filter = map[string]verdict{}
	for _, node := range nodes {
		name := node.Node().Name
		a.Filter[name] = said(p.(fwk.FilterPlugin).Filter(ctx, state, q.Pod, node))
		if a.Filter[name].Code == fwk.Success.String() && (a.Node == "" || name < a.Node) {
			a.Node = name
		}
	}
	if q.Plugin == "VolumeBinding" && a.Node != "" {
		a.Written = written(p, client, q, state, a.Node)
	}
	return a, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(fmt.Sprintf("%v: %s", err, lines.Text()))
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
