// What go-redis's ClusterClient needs of a cluster. Usage: go_redis PORT, of any node; prints a line per failure, then totals.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx, port = context.Background(), os.Args[1]

func connect(protocol int) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + port}, Protocol: protocol})
}

// A check that fails ends its test.
type failure string

func check(holds bool, format string, values ...any) {
	if !holds {
		panic(failure(fmt.Sprintf(format, values...)))
	}
}

func equal[T any](got, expected T) {
	check(reflect.DeepEqual(got, expected), "got %v, expected %v", got, expected)
}

// The reply of a command that must not fail.
func ok[T any](reply T, err error) T {
	check(err == nil, "error: %v", err)
	return reply
}

var keys = func() (keys []string) {
	for number := range 200 {
		keys = append(keys, fmt.Sprintf("key:%d", number))
	}
	return
}()

func fill(r *redis.ClusterClient) {
	ok(r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, key, 0)
		}
		return nil
	}))
}

// Calls `see` with each node, one after the other.
func each(r *redis.ClusterClient, see func(node *redis.Client)) {
	var alone sync.Mutex
	err := r.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) (err error) {
		alone.Lock()
		defer alone.Unlock()
		defer func() {
			if caught := recover(); caught != nil {
				err = fmt.Errorf("%v", caught)
			}
		}()
		see(node)
		return nil
	})
	check(err == nil, "error: %v", err)
}

type test struct {
	name string
	run  func(r *redis.ClusterClient)
}

var tests = []test{
	{"keys of all nodes", func(r *redis.ClusterClient) {
		fill(r)
		for _, key := range keys {
			equal(ok(r.Get(ctx, key).Result()), key)
		}
		nodes := 0
		each(r, func(*redis.Client) { nodes++ })
		equal(nodes, 3)
	}},

	{"one command with keys of all nodes", func(r *redis.ClusterClient) {
		var pairs []any
		for _, key := range keys {
			pairs = append(pairs, key, key)
		}
		each(r, func(node *redis.Client) {
			ok(node.MSet(ctx, pairs...).Result())
			for i, value := range ok(node.MGet(ctx, keys...).Result()) {
				equal(value, any(keys[i]))
			}
		})
	}},

	{"transactions", func(r *redis.ClusterClient) {
		replies := ok(r.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "{a}1", 1, 0)
			p.Incr(ctx, "{a}1")
			return nil
		}))
		equal(replies[1].(*redis.IntCmd).Val(), 2)
		err := r.Watch(ctx, func(tx *redis.Tx) error {
			ok(r.Set(ctx, "{a}1", "other", 0).Result())
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Get(ctx, "{a}1").Err() })
			return err
		}, "{a}1")
		equal(errors.Is(err, redis.TxFailedErr), true)
	}},

	{"scripts", func(r *redis.ClusterClient) {
		add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
		for _, key := range keys {
			equal(ok(add.Run(ctx, r, []string{key}, 2).Int()), 2)
		}
	}},

	{"messages", func(r *redis.ClusterClient) {
		news := r.Subscribe(ctx, "news")
		defer news.Close()
		ok(news.Receive(ctx))
		ok(r.Publish(ctx, "news", "text").Result())
		message := ok(news.ReceiveMessage(ctx))
		equal([]string{message.Channel, message.Payload}, []string{"news", "text"})
		shard := r.SSubscribe(ctx, "shard")
		defer shard.Close()
		ok(shard.Receive(ctx))
		ok(r.SPublish(ctx, "shard", "text").Result())
		equal(ok(shard.ReceiveMessage(ctx)).Payload, "text")
	}},

	{"blocking pops", func(r *redis.ClusterClient) {
		popped := make(chan []string, 1)
		go func() { popped <- r.BLPop(ctx, 20*time.Second, "list").Val() }()
		for end, blocked := time.Now().Add(10*time.Second), false; !blocked; {
			check(time.Now().Before(end), "nobody is blocked")
			each(r, func(node *redis.Client) {
				blocked = blocked || !strings.Contains(ok(node.Info(ctx, "clients").Result()), "blocked_clients:0")
			})
		}
		ok(r.RPush(ctx, "list", 1).Result())
		equal(<-popped, []string{"list", "1"})
	}},

	{"nodes of their own", func(r *redis.ClusterClient) {
		fill(r)
		var found []string
		sum, refused := int64(0), 0
		each(r, func(node *redis.Client) {
			sum += ok(node.DBSize(ctx).Result())
			for scan := node.Scan(ctx, 0, "", 7).Iterator(); scan.Next(ctx); {
				found = append(found, scan.Val())
			}
			if err := node.Get(ctx, "key:1").Err(); err != nil && strings.HasPrefix(err.Error(), "MOVED ") {
				refused++
			}
		})
		slices.Sort(found)
		equal(found, slices.Sorted(slices.Values(keys)))
		equal(sum, int64(len(keys)))
		equal(refused, 2)
	}},
}

// Runs a test; what went wrong, or nil.
func attempt(one test, protocol int) (err any) {
	r := connect(protocol)
	defer r.Close()
	defer func() { err = recover() }()
	each(r, func(node *redis.Client) { ok(node.FlushAll(ctx).Result()) })
	one.run(r)
	return nil
}

func main() {
	passed, failed := 0, 0
	for _, protocol := range []int{2, 3} {
		for _, one := range tests {
			ended := make(chan any, 1)
			go func() { ended <- attempt(one, protocol) }()
			var err any = "no end after 30 s"
			select {
			case err = <-ended:
			case <-time.After(30 * time.Second):
			}
			if err == nil {
				passed++
			} else {
				failed++
				fmt.Printf("ClusterClient of go-redis: %s, RESP%d: %v\n", one.name, protocol, err)
			}
		}
	}
	fmt.Printf("ClusterClient of go-redis: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
