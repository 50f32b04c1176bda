// promql-oracle says what Prometheus makes of rules and queries: the judge for tests of the alerts and the dashboard.
//
// Its argument is a file of rules as Prometheus reads it. stdin is {"cases": [{"series": {SERIES: VALUES}, "after": "10m"}],
// "queries": [QUERY]}, with series and values in the notation of promtool's unit tests, a value for each minute. stdout is
// {"firing": [[{"alert", "labels", "summary", "description"}]], "metrics": [[NAME]]}: for each case the alerts that fire then,
// for each query the metrics that it asks for.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	// The definitions of its kinds come with this module; the test reads them from its folder.
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const interval = time.Minute

type asked struct {
	Cases []struct {
		Series map[string]string `json:"series"`
		After  model.Duration    `json:"after"`
	} `json:"cases"`
	Queries []string `json:"queries"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary"`
	Description string            `json:"description"`
}

type answered struct {
	Firing  [][]alert  `json:"firing"`
	Metrics [][]string `json:"metrics"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: promql-oracle RULES < QUESTIONS")
	}
	var questions asked
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		log.Fatalf("questions: %v", err)
	}
	answers := answered{Firing: [][]alert{}, Metrics: [][]string{}}
	for i, one := range questions.Cases {
		firing, err := evaluate(os.Args[1], one.Series, time.Duration(one.After))
		if err != nil {
			log.Fatalf("case %d: %v", i, err)
		}
		answers.Firing = append(answers.Firing, firing)
	}
	for _, query := range questions.Queries {
		names, err := metrics(query)
		if err != nil {
			log.Fatalf("%s: %v", query, err)
		}
		answers.Metrics = append(answers.Metrics, names)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

// The alerts that fire at the end, after the rules have been evaluated every minute.
func evaluate(file string, series map[string]string, after time.Duration) (firing []alert, err error) {
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", model.Duration(interval))
	for name, values := range series {
		fmt.Fprintf(&load, "  %s %s\n", name, values)
	}
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return nil, err
	}
	defer suite.Close()
	suite.SubqueryInterval = interval
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		Appendable: suite.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		return nil, fmt.Errorf("%v", errs)
	}
	var alerting []*rules.AlertingRule
	for _, group := range groups {
		for _, rule := range group.Rules() {
			if rule, ok := rule.(*rules.AlertingRule); ok {
				rule.SetRestored(true)
				alerting = append(alerting, rule)
			}
		}
	}
	begin := time.Unix(0, 0).UTC()
	for at := begin; !at.After(begin.Add(after)); at = at.Add(interval) {
		suite.WithSamplesTill(at, func(failed error) {
			if failed != nil {
				err = failed
				return
			}
			for _, group := range groups {
				group.Eval(suite.Context(), at)
			}
		})
		if err != nil {
			return nil, err
		}
		for _, rule := range alerting {
			if rule.LastError() != nil {
				return nil, fmt.Errorf("%s: %w", rule.Name(), rule.LastError())
			}
		}
	}
	firing = []alert{}
	for _, rule := range alerting {
		for _, active := range rule.ActiveAlerts() {
			if active.State != rules.StateFiring {
				continue
			}
			firing = append(firing, alert{
				Alert:       rule.Name(),
				Labels:      active.Labels.Map(),
				Summary:     active.Annotations.Get("summary"),
				Description: active.Annotations.Get("description"),
			})
		}
	}
	return firing, nil
}

// The names of the metrics that a query selects.
func metrics(query string) ([]string, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, err
	}
	names := []string{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !slices.Contains(names, selector.Name) {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names, nil
}
