// Whether each register of a history is linearizable. Usage: porcupine FILE; what is not, or could not be decided, is printed.
// Exit status: 0 all are, 1 one is not, 2 undecided or unreadable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const perKey = 20 * time.Second

// An operation as clients.py notes it.
type op struct {
	Key, Kind, Type string
	Value, Old      *string
	Began           int64
	Ended           *int64
	Swapped         *bool `json:"is_swapped"`
}

func (o op) isKnown() bool { return o.Type == "ok" }

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// The state is the value; "" is absent. The input is the operation itself.
var register = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		o := input.(op)
		switch o.Kind {
		case "write":
			return true, value(o.Value)
		case "read":
			return state == value(o.Value), state
		default:
			swaps := state == value(o.Old)
			if o.isKnown() && o.Swapped != nil && *o.Swapped != swaps {
				return false, state
			}
			if swaps {
				return true, value(o.Value)
			}
			return true, state
		}
	},
	Equal: func(one, other interface{}) bool { return one == other },
	DescribeOperation: func(input, _ interface{}) string {
		o := input.(op)
		return fmt.Sprintf("%s %s", o.Kind, value(o.Value))
	},
}

// What a search must order. Operations that were refused have not happened. Of those that were not answered, reads say nothing, and
// writes whose value nobody saw may have happened at any time, or never, which is last: they matter where a swap has not found what it
// expected later. Others have happened by the end of the first operation that saw them, at the latest.
func relevant(ops []op) []porcupine.Operation {
	seen := map[string]int64{}
	for _, o := range ops {
		text := o.Old
		if o.Kind == "read" {
			text = o.Value
		} else if o.Swapped == nil || !*o.Swapped {
			continue
		}
		if o.isKnown() && text != nil {
			if ended, was := seen[*text]; !was || *o.Ended < ended {
				seen[*text] = *o.Ended
			}
		}
	}
	// A swap that was not answered and was seen has seen what it replaced.
	for changed := true; changed; {
		changed = false
		for _, o := range ops {
			if o.Kind != "cas" || o.Type != "info" {
				continue
			}
			ended, was := seen[value(o.Value)]
			if !was {
				continue
			}
			if before, is := seen[value(o.Old)]; !is || ended < before {
				seen[value(o.Old)], changed = ended, true
			}
		}
	}
	var failed int64 // the end of the last swap that has not found what it expected
	for _, o := range ops {
		if o.isKnown() && o.Swapped != nil && !*o.Swapped {
			failed = max(failed, *o.Ended)
		}
	}
	var found []porcupine.Operation
	for _, o := range ops {
		ended := int64(math.MaxInt64)
		switch {
		case o.Type == "fail":
			continue
		case o.isKnown():
			ended = *o.Ended
		case o.Kind == "read":
			continue
		default:
			by, was := seen[value(o.Value)]
			if was {
				ended = max(by, o.Began)
			} else if failed < o.Began {
				continue
			}
		}
		found = append(found, porcupine.Operation{Input: o, Call: o.Began, Return: ended})
	}
	return found
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	keys := map[string][]op{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o op
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		keys[o.Key] = append(keys[o.Key], o)
	}
	if lines.Err() != nil {
		fmt.Println(lines.Err())
		os.Exit(2)
	}
	status := 0
	for key, ops := range keys {
		switch porcupine.CheckOperationsTimeout(register, relevant(ops), perKey) {
		case porcupine.Illegal:
			status = 1
			fmt.Printf("%s is not linearizable:\n", key)
			for _, o := range ops {
				text, _ := json.Marshal(o)
				fmt.Printf("  %s\n", text)
			}
		case porcupine.Unknown:
			fmt.Printf("%s: not decided in %s\n", key, perKey)
			status = max(status, 2)
		}
	}
	os.Exit(status)
}
