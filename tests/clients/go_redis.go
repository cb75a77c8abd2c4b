// What go-redis's own helpers need of a server, in RESP2 and RESP3. Usage: go_redis PORT [cluster]; prints a line per failure, then totals.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx, port = context.Background(), os.Args[1]

// Whether it is a node of a cluster.
var cluster = len(os.Args) > 2 && os.Args[2] == "cluster"

func connect(protocol int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Protocol: protocol, MaxRetries: -1})
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

func fails(err error, text string) {
	check(err != nil && strings.Contains(err.Error(), text), "got error %v, expected %s", err, text)
}

// The reply of a command that must not fail.
func ok[T any](reply T, err error) T {
	check(err == nil, "error: %v", err)
	return reply
}

func eventually(what string, holds func() bool) {
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		check(time.Now().Before(end), "not within 10 s: %s", what)
	}
}

type test struct {
	name string
	run  func(r *redis.Client)
}

var tests = []test{
	{"strings and transactions", func(r *redis.Client) {
		equal(ok(r.SetNX(ctx, "a", 1, time.Minute).Result()), true)
		equal(ok(r.IncrBy(ctx, "a", 4).Result()), 5)
		fails(r.Get(ctx, "none").Err(), redis.Nil.Error())
		replies := ok(r.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "a")
			p.HSet(ctx, "h", "f", 1.5)
			p.HGetAll(ctx, "h")
			return nil
		}))
		equal(replies[2].(*redis.MapStringStringCmd).Val(), map[string]string{"f": "1.5"})
		err := r.Watch(ctx, func(tx *redis.Tx) error {
			ok(r.Set(ctx, "a", "other", 0).Result())
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Get(ctx, "a").Err() })
			return err
		}, "a")
		equal(errors.Is(err, redis.TxFailedErr), true)
	}},

	{"scripts", func(r *redis.Client) {
		add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
		equal(ok(r.ScriptExists(ctx, add.Hash()).Result()), []bool{false})
		fails(add.EvalSha(ctx, r, []string{"n"}, 2).Err(), "NOSCRIPT")
		// Run tries EVALSHA and then EVAL.
		equal(ok(add.Run(ctx, r, []string{"n"}, 2).Int()), 2)
		equal(ok(add.EvalSha(ctx, r, []string{"n"}, 3).Int()), 5)
		if !cluster { // Where all nodes know what was loaded, and those that ran it what came with EVAL.
			equal(ok(r.ScriptExists(ctx, add.Hash(), "none").Result()), []bool{true, false})
		}
		equal(ok(r.ScriptLoad(ctx, "return 1").Result()), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db")
		fails(r.EvalRO(ctx, "return redis.call('set', KEYS[1], 1)", []string{"n"}).Err(), "Write commands are not allowed")
		equal(ok(r.Eval(ctx, "return {1, 'two', {3.9, false}, redis.status_reply('fine')}", nil).Slice()),
			[]any{int64(1), "two", []any{int64(3), nil}, "fine"})
		fails(r.Eval(ctx, "return redis.error_reply('MY own')", nil).Err(), "MY own")
		fails(r.Eval(ctx, "return nil", nil).Err(), redis.Nil.Error())
		replies := ok(r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for number := range 100 {
				p.Eval(ctx, "return ARGV[1] * 2", nil, number)
			}
			return nil
		}))
		equal(ok(replies[99].(*redis.Cmd).Int()), 198)
		equal(ok(r.ScriptFlush(ctx).Result()), "OK")
		equal(ok(r.ScriptExists(ctx, add.Hash()).Result()), []bool{false})
		fails(r.ScriptKill(ctx).Err(), "NOTBUSY")
	}},

	{"functions", func(r *redis.Client) {
		code := "#!lua name=mine\n" +
			"redis.register_function('put', function(keys, args) return redis.call('set', keys[1], args[1]) end)\n" +
			"redis.register_function{function_name='look', flags={'no-writes'}, callback=function(keys) return redis.call('get', keys[1]) end}"
		equal(ok(r.FunctionLoad(ctx, code).Result()), "mine")
		fails(r.FunctionLoad(ctx, code).Err(), "already exists")
		equal(ok(r.FunctionLoadReplace(ctx, code).Result()), "mine")
		equal(ok(r.FCall(ctx, "put", []string{"k"}, "v").Result()), any("OK"))
		equal(ok(r.FCallRO(ctx, "look", []string{"k"}).Result()), any("v"))
		fails(r.FCallRO(ctx, "put", []string{"k"}, "v").Err(), "write flag")
		found := ok(r.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: "mi*", WithCode: true}).Result())
		equal(len(found), 1)
		equal(found[0].Code, code)
		names := []string{found[0].Functions[0].Name, found[0].Functions[1].Name}
		slices.Sort(names)
		equal(names, []string{"look", "put"})
		stats := ok(r.FunctionStats(ctx).Result())
		equal(stats.Running(), false)
		equal(stats.Engines[0].LibrariesCount, 1)
		dump := ok(r.FunctionDump(ctx).Result())
		equal(ok(r.FunctionDelete(ctx, "mine").Result()), "OK")
		fails(r.FCall(ctx, "put", []string{"k"}, "v").Err(), "Function not found")
		equal(ok(r.FunctionRestore(ctx, dump).Result()), "OK")
		equal(ok(r.FCall(ctx, "look", []string{"k"}).Result()), any("v"))
		equal(ok(r.FunctionFlush(ctx).Result()), "OK")
		fails(r.FunctionKill(ctx).Err(), "NOTBUSY")
	}},

	{"messages", func(r *redis.Client) {
		heard := func(of *redis.PubSub) string {
			message := ok(of.ReceiveMessage(ctx))
			return message.Channel + " " + message.Pattern + " " + message.Payload
		}
		plain, patterns, sharded := r.Subscribe(ctx, "news", "other"), r.PSubscribe(ctx, "n?w*"), r.SSubscribe(ctx, "shard")
		for _, of := range []*redis.PubSub{plain, patterns, sharded} {
			defer of.Close()
			ok(of.Receive(ctx))
		}
		ok(plain.Receive(ctx))
		equal(ok(r.Publish(ctx, "news", "text").Result()), 2)
		equal(ok(r.SPublish(ctx, "shard", "there").Result()), 1)
		equal(heard(plain), "news  text")
		equal(heard(patterns), "news n?w* text")
		equal(heard(sharded), "shard  there")
		channels := ok(r.PubSubChannels(ctx, "*").Result())
		slices.Sort(channels)
		equal(channels, []string{"news", "other"})
		equal(ok(r.PubSubNumSub(ctx, "news", "none").Result()), map[string]int64{"news": 1, "none": 0})
		equal(ok(r.PubSubNumPat(ctx).Result()), 1)
		equal(ok(r.PubSubShardChannels(ctx, "*").Result()), []string{"shard"})
		equal(ok(r.PubSubShardNumSub(ctx, "shard").Result()), map[string]int64{"shard": 1})
		ok(0, plain.Ping(ctx, "still"))
		equal(ok(plain.Receive(ctx)).(*redis.Pong).Payload, "still")
		ok(0, plain.Unsubscribe(ctx, "news"))
		equal(ok(plain.Receive(ctx)).(*redis.Subscription).Count, 1)
		equal(ok(r.Publish(ctx, "news", "text").Result()), 1)

		// The channel form, with many messages.
		many := r.Subscribe(ctx, "many")
		defer many.Close()
		ok(many.Receive(ctx))
		received := many.Channel(redis.WithChannelSize(2000))
		for number := range 1000 {
			ok(r.Publish(ctx, "many", number).Result())
		}
		for number := range 1000 {
			equal((<-received).Payload, fmt.Sprint(number))
		}
		ok(r.ConfigSet(ctx, "notify-keyspace-events", "KEA").Result())
		defer r.ConfigSet(ctx, "notify-keyspace-events", "")
		events := r.PSubscribe(ctx, "__keyspace@0__:*")
		defer events.Close()
		ok(events.Receive(ctx))
		ok(r.XAdd(ctx, &redis.XAddArgs{Stream: "events", Values: []string{"a", "b"}}).Result())
		equal(heard(events), "__keyspace@0__:events __keyspace@0__:* xadd")
	}},

	{"streams", func(r *redis.Client) {
		for number := 1; number <= 5; number++ {
			args := &redis.XAddArgs{Stream: "s", ID: fmt.Sprintf("%d-1", number), Values: map[string]any{"n": number}}
			equal(ok(r.XAdd(ctx, args).Result()), fmt.Sprintf("%d-1", number))
		}
		fails(r.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: "5-1", Values: []string{"a", "b"}}).Err(), "equal or smaller")
		fails(r.XAdd(ctx, &redis.XAddArgs{Stream: "none", NoMkStream: true, Values: []string{"a", "b"}}).Err(), redis.Nil.Error())
		ids := func(messages []redis.XMessage) (ids []string) {
			for _, message := range messages {
				ids = append(ids, message.ID)
			}
			return ids
		}
		equal(ids(ok(r.XRangeN(ctx, "s", "(1-1", "+", 2).Result())), []string{"2-1", "3-1"})
		equal(ids(ok(r.XRevRange(ctx, "s", "+", "4").Result())), []string{"5-1", "4-1"})
		read := ok(r.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "4"}}).Result())
		equal(read, []redis.XStream{{Stream: "s", Messages: []redis.XMessage{
			{ID: "4-1", Values: map[string]any{"n": "4"}}, {ID: "5-1", Values: map[string]any{"n": "5"}}}}})
		fails(r.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: 10 * time.Millisecond}).Err(), redis.Nil.Error())

		equal(ok(r.XGroupCreateMkStream(ctx, "s", "g", "0").Result()), "OK")
		fails(r.XGroupCreate(ctx, "s", "g", "0").Err(), "BUSYGROUP")
		equal(ok(r.XGroupCreateConsumer(ctx, "s", "g", "idle").Result()), 1)
		group := func(consumer string, count int64) []redis.XStream {
			return ok(r.XReadGroup(ctx, &redis.XReadGroupArgs{
				Group: "g", Consumer: consumer, Streams: []string{"s", ">"}, Count: count, Block: -1}).Result())
		}
		equal(ids(group("one", 3)[0].Messages), []string{"1-1", "2-1", "3-1"})
		equal(ids(group("two", 1)[0].Messages), []string{"4-1"})
		fails(r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "none", Consumer: "c", Streams: []string{"s", ">"}, Block: -1}).Err(), "NOGROUP")
		equal(ok(r.XAck(ctx, "s", "g", "1-1", "9-9").Result()), 1)
		equal(*ok(r.XPending(ctx, "s", "g").Result()), redis.XPending{
			Count: 3, Lower: "2-1", Higher: "4-1", Consumers: map[string]int64{"one": 2, "two": 1}})
		pending := ok(r.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 10, Consumer: "two"}).Result())
		equal([]any{len(pending), pending[0].ID, pending[0].Consumer, pending[0].RetryCount}, []any{1, "4-1", "two", int64(1)})
		claim := &redis.XClaimArgs{Stream: "s", Group: "g", Consumer: "two", Messages: []string{"2-1"}}
		equal(ids(ok(r.XClaim(ctx, claim).Result())), []string{"2-1"})
		equal(ok(r.XClaimJustID(ctx, claim).Result()), []string{"2-1"})
		equal(ok(r.XDel(ctx, "s", "3-1").Result()), 1)
		messages, next, err := r.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g", Consumer: "three", Start: "0", Count: 10}).Result()
		equal(ids(ok(messages, err)), []string{"2-1", "4-1"})
		equal(next, "0-0")

		info := ok(r.XInfoStream(ctx, "s").Result())
		equal([]any{info.Length, info.LastGeneratedID, info.MaxDeletedEntryID, info.EntriesAdded, info.FirstEntry.ID, info.LastEntry.ID},
			[]any{int64(4), "5-1", "3-1", int64(5), "1-1", "5-1"})
		groups := ok(r.XInfoGroups(ctx, "s").Result())
		equal([]any{groups[0].Name, groups[0].Consumers, groups[0].Pending, groups[0].LastDeliveredID, groups[0].EntriesRead, groups[0].Lag},
			[]any{"g", int64(4), int64(2), "4-1", int64(4), int64(1)})
		equal(len(ok(r.XInfoConsumers(ctx, "s", "g").Result())), 4)
		full := ok(r.XInfoStreamFull(ctx, "s", 10).Result())
		equal([]any{len(full.Entries), len(full.Groups), len(full.Groups[0].Consumers), full.Groups[0].PelCount}, []any{4, 1, 4, int64(2)})
		equal(ok(r.XTrimMaxLen(ctx, "s", 2).Result()), 2)
		equal(ok(r.XGroupDelConsumer(ctx, "s", "g", "three").Result()), 2)
		equal(ok(r.XGroupDestroy(ctx, "s", "g").Result()), 1)

		// A reader that waits gets what comes.
		waiting := make(chan *redis.XStreamSliceCmd)
		go func() {
			waiting <- r.XRead(ctx, &redis.XReadArgs{Streams: []string{"later", "$"}, Block: 10 * time.Second})
		}()
		eventually("a blocked client", func() bool {
			return strings.Contains(ok(r.Info(ctx, "clients").Result()), "blocked_clients:1")
		})
		ok(r.XAdd(ctx, &redis.XAddArgs{Stream: "later", Values: []string{"a", "b"}}).Result())
		equal(ok((<-waiting).Result())[0].Messages[0].Values, map[string]any{"a": "b"})
	}},

	{"geo", func(r *redis.Client) {
		equal(ok(r.GeoAdd(ctx, "sicily", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556},
			&redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669}).Result()), 2)
		fails(r.GeoAdd(ctx, "sicily", &redis.GeoLocation{Name: "off", Longitude: 200, Latitude: 0}).Err(), "invalid longitude,latitude pair")
		equal(ok(r.GeoDist(ctx, "sicily", "Palermo", "Catania", "km").Result()), 166.2742)
		fails(r.GeoDist(ctx, "sicily", "Palermo", "none", "km").Err(), redis.Nil.Error())
		equal(ok(r.GeoHash(ctx, "sicily", "Palermo", "none").Result()), []string{"sqc8b49rny0", ""})
		places := ok(r.GeoPos(ctx, "sicily", "Palermo", "none").Result())
		equal(fmt.Sprintf("%.6f %.6f %v", places[0].Longitude, places[0].Latitude, places[1]), "13.361389 38.115556 <nil>")
		near := redis.GeoSearchQuery{Longitude: 15, Latitude: 37, Radius: 200, RadiusUnit: "km", Sort: "ASC"}
		equal(ok(r.GeoSearch(ctx, "sicily", &near).Result()), []string{"Catania", "Palermo"})
		found := ok(r.GeoSearchLocation(ctx, "sicily", &redis.GeoSearchLocationQuery{
			GeoSearchQuery: near, WithCoord: true, WithDist: true, WithHash: true}).Result())
		equal(fmt.Sprintf("%s %.4f %d %.4f", found[0].Name, found[0].Dist, found[0].GeoHash, found[0].Longitude),
			"Catania 56.4413 3479447370796909 15.0873")
		equal(ok(r.GeoSearchStore(ctx, "sicily", "near", &redis.GeoSearchStoreQuery{GeoSearchQuery: near, StoreDist: true}).Result()), 2)
		equal(ok(r.ZCard(ctx, "near").Result()), 2)
		old := ok(r.GeoRadius(ctx, "sicily", 15, 37, &redis.GeoRadiusQuery{Radius: 200, Unit: "km", WithDist: true, Sort: "DESC", Count: 1}).Result())
		equal(fmt.Sprintf("%s %.4f", old[0].Name, old[0].Dist), "Palermo 190.4424")
	}},

	{"HyperLogLogs", func(r *redis.Client) {
		equal(ok(r.PFAdd(ctx, "one", "a", "b", "c").Result()), 1)
		equal(ok(r.PFAdd(ctx, "one", "a").Result()), 0)
		ok(r.PFAdd(ctx, "two", "c", "d").Result())
		equal(ok(r.PFCount(ctx, "one").Result()), 3)
		equal(ok(r.PFCount(ctx, "one", "two", "none").Result()), 4)
		equal(ok(r.PFMerge(ctx, "all", "one", "two").Result()), "OK")
		equal(ok(r.PFCount(ctx, "all").Result()), 4)
		ok(r.Set(ctx, "text", "x", 0).Result())
		fails(r.PFAdd(ctx, "text", "a").Err(), "WRONGTYPE")
	}},

	{"clients", func(r *redis.Client) {
		id := ok(r.ClientID(ctx).Result())
		check(strings.Contains(ok(r.ClientList(ctx).Result()), fmt.Sprintf("id=%d ", id)), "the list lacks %d", id)
		info := ok(r.ClientInfo(ctx).Result())
		equal([]any{info.LibName != "", info.DB, info.LastCmd}, []any{true, 0, "client|info"})
		waiting := make(chan error)
		one := r.Conn()
		defer one.Close()
		id = ok(one.ClientID(ctx).Result())
		go func() { waiting <- one.BLPop(ctx, 10*time.Second, "none").Err() }()
		eventually("unblocking", func() bool { return ok(r.ClientUnblockWithError(ctx, id).Result()) == 1 })
		fails(<-waiting, "UNBLOCKED")
		equal(ok(r.ClientPause(ctx, time.Millisecond).Result()), true)
		equal(ok(r.ClientUnpause(ctx).Result()), true)
		equal(ok(r.ClientKillByFilter(ctx, "ID", fmt.Sprint(id)).Result()), 1)
		ok(r.Set(ctx, "k", "value", 0).Result())
		check(ok(r.MemoryUsage(ctx, "k", 0).Result()) > 5, "no memory")
		check(ok(r.ObjectIdleTime(ctx, "k").Result()) < time.Minute, "idle for long")
		equal(len(ok(r.Latency(ctx).Result())), 0)
		equal(len(ok(r.SlowLogGet(ctx, 10).Result())) <= 10, true)
	}},

	{"caching", func(r *redis.Client) {
		if r.Options().Protocol < 3 || cluster {
			return // It needs pushes, and nodes of a cluster do not have CLIENT TRACKING.
		}
		options := *r.Options()
		options.ClientSideCacheConfig = nil
		cache := redis.NewLocalCache(redis.CacheConfig{MaxEntries: 100})
		options.ClientSideCache = cache
		cached := redis.NewClient(&options)
		defer cached.Close()
		ok(r.MSet(ctx, "a", 1, "b", 2).Result())
		equal(ok(cached.Get(ctx, "a").Result()), "1")
		equal(ok(cached.Get(ctx, "b").Result()), "2")
		eventually("two in the cache", func() bool { return cache.Len() == 2 })
		ok(r.Set(ctx, "a", 9, 0).Result())
		eventually("the new value", func() bool { return ok(cached.Get(ctx, "a").Result()) == "9" })
		ok(r.FlushAll(ctx).Result())
		eventually("nothing", func() bool { return errors.Is(cached.Get(ctx, "b").Err(), redis.Nil) })
	}},
}

func attempt(one test, protocol int) (err any) {
	r := connect(protocol)
	defer r.Close()
	defer func() { err = recover() }()
	ok(r.FlushAll(ctx).Result())
	ok(r.ScriptFlush(ctx).Result())
	one.run(r)
	return nil
}

func main() {
	passed, failed := 0, 0
	for _, protocol := range []int{2, 3} {
		for _, one := range tests {
			ended := make(chan any, 1)
			go func() { ended <- attempt(one, protocol) }()
			var err any = "no end after 20 s"
			select {
			case err = <-ended:
			case <-time.After(20 * time.Second):
			}
			if err == nil {
				passed++
			} else {
				failed++
				fmt.Printf("go-redis: %s, RESP%d: %v\n", one.name, protocol, err)
			}
		}
	}
	fmt.Printf("go-redis: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
