// What rueidis needs with its default options: RESP3 and client-side caching. It finds out by itself whether it is at a cluster.
// Usage: rueidis [smart] PORT [cluster]; prints a line per failure, then totals.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

var ctx = context.Background()

// A check that fails ends its test.
type failure string

func check(holds bool, format string, values ...any) {
	if !holds {
		panic(failure(fmt.Sprintf(format, values...)))
	}
}

func do(r rueidis.Client, words ...string) rueidis.RedisResult {
	return r.Do(ctx, r.B().Arbitrary(words[0]).Keys(words[1:2]...).Args(words[2:]...).Build())
}

func text(result rueidis.RedisResult) string {
	text, err := result.ToString()
	check(err == nil, "error: %v", err)
	return text
}

func cached(r rueidis.Client, key string) (string, bool) {
	result := r.DoCache(ctx, r.B().Get().Key(key).Cache(), time.Minute)
	return text(result), result.IsCacheHit()
}

func scanned(r rueidis.Client) (found []string) {
	for cursor := uint64(0); ; {
		entry, err := r.Do(ctx, r.B().Scan().Cursor(cursor).Count(7).Build()).AsScanEntry()
		check(err == nil, "error: %v", err)
		found = append(found, entry.Elements...)
		if cursor = entry.Cursor; cursor == 0 {
			return found
		}
	}
}

var tests = []struct {
	name string
	run  func(rueidis.Client)
}{
	{"strings", func(r rueidis.Client) {
		check(text(do(r, "SET", "a", "1")) == "OK", "SET")
		check(text(do(r, "GET", "a")) == "1", "GET")
	}},
	{"many at once", func(r rueidis.Client) {
		var commands rueidis.Commands
		for number := range 500 {
			commands = append(commands, r.B().Set().Key(fmt.Sprint("key:", number)).Value("v").Build())
		}
		for _, result := range r.DoMulti(ctx, commands...) {
			check(text(result) == "OK", "SET")
		}
	}},
	{"cache", func(r rueidis.Client) {
		for number := range 50 {
			key := fmt.Sprint("key:", number)
			text(do(r, "SET", key, "old"))
			value, _ := cached(r, key)
			check(value == "old", "%v", value)
			value, hit := cached(r, key)
			check(value == "old" && hit, "%v, from the cache: %v", value, hit)
			text(do(r, "SET", key, "new"))
		}
		// What has changed is told to the client; it must end, but when is not said.
		for number := range 50 {
			for key := fmt.Sprint("key:", number); ; time.Sleep(time.Millisecond) {
				if value, _ := cached(r, key); value == "new" {
					break
				}
			}
		}
	}},
	{"transactions", func(r rueidis.Client) {
		err := r.Dedicated(func(d rueidis.DedicatedClient) error {
			results := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Incr().Key("{t}n").Build(), d.B().Incr().Key("{t}n").Build(), d.B().Exec().Build())
			numbers, err := results[3].AsIntSlice()
			check(err == nil && slices.Equal(numbers, []int64{1, 2}), "%v, %v", numbers, err)
			return nil
		})
		check(err == nil, "error: %v", err)
	}},
	{"scripts", func(r rueidis.Client) {
		script := rueidis.NewLuaScript("return redis.call('incrby', KEYS[1], ARGV[1])")
		number, err := script.Exec(ctx, r, []string{"n"}, []string{"3"}).AsInt64()
		check(err == nil && number == 3, "%v, %v", number, err)
	}},
	{"messages", func(r rueidis.Client) {
		heard, cancel := context.WithCancel(ctx)
		go r.Receive(heard, r.B().Subscribe().Channel("news").Build(), func(rueidis.PubSubMessage) { cancel() })
		for heard.Err() == nil {
			r.Do(ctx, r.B().Publish().Channel("news").Message("text").Build())
			time.Sleep(10 * time.Millisecond)
		}
	}},
	{"scans", func(r rueidis.Client) {
		var expected, found []string
		for number := range 500 {
			expected = append(expected, fmt.Sprint("key:", number))
			text(do(r, "SET", expected[number], "v"))
		}
		for _, node := range r.Nodes() {
			found = append(found, scanned(node)...)
		}
		slices.Sort(found)
		slices.Sort(expected)
		check(slices.Equal(found, expected), "%d keys, expected %d", len(found), len(expected))
	}},
}

func run(name string, test func(rueidis.Client), port string) (ok bool) {
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}})
	if err != nil {
		fmt.Printf("rueidis: %s: %v\n", name, err)
		return false
	}
	defer r.Close()
	ended := make(chan string, 1)
	go func() {
		defer func() {
			if reason := recover(); reason != nil {
				ended <- fmt.Sprint(reason)
			} else {
				ended <- ""
			}
		}()
		for _, node := range r.Nodes() {
			check(node.Do(ctx, node.B().Flushall().Build()).Error() == nil, "FLUSHALL")
		}
		test(r)
	}()
	reason := "no end after 30 s"
	select {
	case reason = <-ended:
	case <-time.After(30 * time.Second):
	}
	if reason != "" {
		fmt.Printf("rueidis: %s: %s\n", name, strings.TrimSpace(reason))
	}
	return reason == ""
}

func main() {
	arguments := slices.DeleteFunc(os.Args[1:], func(word string) bool { return word == "smart" })
	passed, failed := 0, 0
	for _, test := range tests {
		if run(test.name, test.run, arguments[0]) {
			passed++
		} else {
			failed++
		}
	}
	fmt.Printf("rueidis: %d passed, %d failed\n", passed, failed)
}
