// The oracle answers questions with Kubernetes' own libraries: one JSON question per line in, one JSON answer per line out.
// tests/model/golden/regenerate.py asks them; the answers are kept in kubernetes.json.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

type question struct {
	About       string             `json:"about"`
	Text        string             `json:"text"`
	Set         map[string]string  `json:"set"`
	Pod         *corev1.Pod        `json:"pod"`
	Node        *corev1.Node       `json:"node"`
	Taint       *corev1.Taint      `json:"taint"`
	Toleration  *corev1.Toleration `json:"toleration"`
	Comparisons bool               `json:"comparisons"`
}

func answer(q question) (any, error) {
	switch q.About {
	case "quantity":
		quantity, err := resource.ParseQuantity(q.Text)
		if err != nil {
			return nil, err
		}
		value, milli := quantity.Value(), quantity.MilliValue()
		quantity.Add(resource.Quantity{}) // drops the text as it was written
		return map[string]any{"value": value, "milli": milli, "text": quantity.String()}, nil
	case "label selector":
		selector, err := labels.Parse(q.Text)
		if err != nil {
			return nil, err
		}
		return selector.Matches(labels.Set(q.Set)), nil
	case "field selector":
		selector, err := fields.ParseSelector(q.Text)
		if err != nil {
			return nil, err
		}
		return selector.Matches(fields.Set(q.Set)), nil
	case "requests":
		options := podresources.PodResourcesOptions{
			UseStatusResources: true,
			InPlacePodLevelResourcesVerticalScalingEnabled: true,
		}
		result := map[string]int64{}
		for name, quantity := range podresources.PodRequests(q.Pod, options) {
			if name == corev1.ResourceCPU {
				result[string(name)] = quantity.MilliValue()
			} else {
				result[string(name)] = quantity.Value()
			}
		}
		return result, nil
	case "affinity":
		matches, _ := nodeaffinity.GetRequiredNodeAffinity(q.Pod).Match(q.Node)
		return matches, nil
	default:
		return q.Toleration.ToleratesTaint(klog.Background(), q.Taint, q.Comparisons), nil
	}
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
		result, err := answer(q)
		_ = out.Encode(map[string]any{"answer": result, "refused": err != nil})
	}
}
