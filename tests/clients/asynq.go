// What the job queue asynq needs of a server: its scripts, its lists, its clocks. Usage: asynq [smart] PORT [cluster]; prints a line per failure,
// then totals. `smart`: over go-redis's client of clusters.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const jobs = 200

var passed, failed = 0, 0

func report(name string, err error) {
	if err == nil {
		passed++
		return
	}
	failed++
	fmt.Printf("asynq: %s: %v\n", name, err)
}

// until waits until something holds, 30 s at most.
func until(what string, holds func() bool) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("%s: not within 30 s", what)
}

func main() {
	var at asynq.RedisConnOpt
	port := os.Args[len(os.Args)-1]
	if port == "cluster" {
		port = os.Args[len(os.Args)-2]
	}
	address := "127.0.0.1:" + port
	if os.Args[1] == "smart" {
		at = asynq.RedisClusterClientOpt{Addrs: []string{address}}
	} else {
		at = asynq.RedisClientOpt{Addr: address}
	}
	report("flush", redis.NewClient(&redis.Options{Addr: address}).FlushAll(context.Background()).Err())

	client, inspector := asynq.NewClient(at), asynq.NewInspector(at)
	var lock sync.Mutex
	done, tried := map[string]int{}, map[string]int{}
	count := func(of map[string]int) int {
		lock.Lock()
		defer lock.Unlock()
		return len(of)
	}
	server := asynq.NewServer(at, asynq.Config{
		Concurrency: 10, Queues: map[string]int{"default": 2, "low": 1}, LogLevel: asynq.FatalLevel,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		lock.Lock()
		defer lock.Unlock()
		name := string(task.Payload())
		if tried[name]++; task.Type() == "twice" && tried[name] == 1 {
			return fmt.Errorf("once more")
		}
		done[name]++
		return nil
	})
	report("start", server.Start(handler))

	var err error
	for number := range jobs {
		queue, kind := "default", "once"
		if number%3 == 0 {
			queue = "low"
		}
		if number%10 == 0 {
			kind = "twice"
		}
		if _, e := client.Enqueue(asynq.NewTask(kind, []byte(fmt.Sprint(number))), asynq.Queue(queue)); e != nil {
			err = e
		}
	}
	report("enqueue", err)
	_, err = client.Enqueue(asynq.NewTask("once", []byte("late")), asynq.ProcessIn(time.Second))
	report("enqueue for later", err)
	_, err = client.Enqueue(asynq.NewTask("once", []byte("unique")), asynq.Unique(time.Minute), asynq.ProcessIn(time.Hour))
	report("enqueue once", err)
	_, err = client.Enqueue(asynq.NewTask("once", []byte("unique")), asynq.Unique(time.Minute), asynq.ProcessIn(time.Hour))
	if err == nil {
		report("a job that exists is refused", fmt.Errorf("it was taken"))
	} else {
		report("a job that exists is refused", nil)
	}
	report("all jobs", until("all jobs done", func() bool { return count(done) == jobs+1 }))

	lock.Lock()
	err = nil
	for name, times := range done {
		if times != 1 {
			err = fmt.Errorf("job %s was done %d times", name, times)
		}
	}
	lock.Unlock()
	report("each job once", err)
	queues, err := inspector.Queues()
	if err == nil && len(queues) != 2 {
		err = fmt.Errorf("queues %v", queues)
	}
	report("queues", err)
	info, err := inspector.GetQueueInfo("default")
	if err == nil && info.Scheduled != 1 {
		err = fmt.Errorf("%d scheduled", info.Scheduled)
	}
	report("what is scheduled", err)
	server.Shutdown()
	fmt.Printf("asynq: %d passed, %d failed\n", passed, failed)
}
