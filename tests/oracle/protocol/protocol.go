// Package protocol is what the programs have in common that run other schedulers' code.
//
// Standard input is a list of scenarios as JSON. Standard output has one line for each, in order:
// its id, and every outcome with the number of runs that had it.
package protocol

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
)

// Scenario is a policy and a cluster, as `quadrant replay` reads them.
type Scenario struct {
	ID      string          `json:"id"`
	Policy  json.RawMessage `json:"policy"`
	Cluster json.RawMessage `json:"cluster"`
}

// Outcome is the result of one session; keys are namespace/name.
type Outcome struct {
	Binds     map[string]string `json:"binds"`
	Evicted   []string          `json:"evicted"`
	Pipelined map[string]string `json:"pipelined"`
	Phases    map[string]string `json:"phases"`
}

// Empty is the outcome of a session that did nothing.
func Empty() Outcome {
	return Outcome{
		Binds: map[string]string{}, Evicted: []string{}, Pipelined: map[string]string{},
		Phases: map[string]string{},
	}
}

type counted struct {
	Outcome
	Runs int `json:"runs"`
}

type answer struct {
	ID       string    `json:"id"`
	Outcomes []counted `json:"outcomes"`
	Error    string    `json:"error,omitempty"`
}

// parallel is how many scenarios are run at a time: each waits 100 ms for its informers.
const parallel = 12

// Serve answers standard input. Each call of run is one session.
func Serve(run func(Scenario) (Outcome, error)) {
	runs := flag.Int("runs", 6, "sessions for each scenario")
	flag.Parse()
	out := os.Stdout
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout = null // Volcano's helper prints each victim
	var scenarios []Scenario
	if err := json.NewDecoder(os.Stdin).Decode(&scenarios); err != nil {
		log.Fatal(err)
	}
	writer := json.NewEncoder(out)
	for _, each := range answers(scenarios, *runs, run) {
		if err := writer.Encode(each); err != nil {
			log.Fatal(err)
		}
	}
}

func answers(scenarios []Scenario, runs int, run func(Scenario) (Outcome, error)) []answer {
	results := make([]answer, len(scenarios))
	places := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i := range scenarios {
		all.Add(1)
		places <- struct{}{}
		go func() {
			defer all.Done()
			defer func() { <-places }()
			results[i] = answerOf(scenarios[i], runs, run)
		}()
	}
	all.Wait()
	return results
}

// answerOf runs a scenario so many times: ties are broken at random.
func answerOf(scenario Scenario, runs int, run func(Scenario) (Outcome, error)) answer {
	result := answer{ID: scenario.ID, Outcomes: []counted{}}
	known := map[string]int{}
	for range runs {
		outcome, err := guarded(scenario, run)
		if err != nil {
			result.Error = err.Error()
			break
		}
		text, err := json.Marshal(outcome)
		if err != nil {
			result.Error = err.Error()
			break
		}
		at, found := known[string(text)]
		if !found {
			at = len(result.Outcomes)
			known[string(text)] = at
			result.Outcomes = append(result.Outcomes, counted{Outcome: outcome})
		}
		result.Outcomes[at].Runs++
	}
	return result
}

func guarded(scenario Scenario, run func(Scenario) (Outcome, error)) (outcome Outcome, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return run(scenario)
}
