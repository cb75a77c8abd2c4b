// Writes without end by go-redis. Usage and output: ride.py beside it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func connect(kind, settings string, places []string) redis.UniversalClient {
	tuned := settings == "tuned"
	switch {
	case kind == "sentinel" && tuned:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: places,
			MaxRetries: 12, MinRetryBackoff: 10 * time.Millisecond, DialTimeout: time.Second})
	case kind == "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: places})
	case kind == "cluster" && tuned:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: places, MaxRedirects: 12,
			MinRetryBackoff: 10 * time.Millisecond, DialTimeout: time.Second, ReadTimeout: time.Second})
	case kind == "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: places})
	case tuned:
		// A node holds commands for a lost owner for three seconds.
		return redis.NewClient(&redis.Options{Addr: places[0], MaxRetries: 12,
			MinRetryBackoff: 10 * time.Millisecond, DialTimeout: time.Second, ReadTimeout: 5 * time.Second})
	}
	return redis.NewClient(&redis.Options{Addr: places[0]})
}

func ms(at time.Time) float64 {
	return float64(at.UnixMicro()) / 1000
}

func write(client redis.UniversalClient, key string, pause time.Duration, lines chan<- string) {
	due := time.Now()
	for number := 0; ; number++ {
		time.Sleep(time.Until(due))
		began := time.Now()
		if due = due.Add(pause); due.Before(began) {
			due = began
		}
		outcome := "ok"
		if err := client.RPush(context.Background(), key, number).Err(); err != nil {
			outcome = strings.ReplaceAll(fmt.Sprintf("%T: %v", err, err), "\n", " ")
		}
		lines <- fmt.Sprintf("%s %d %.3f %.3f %s\n", key, number, ms(began), ms(time.Now()), outcome)
	}
}

func main() {
	kind, settings, keys, places := os.Args[1], os.Args[2], strings.Split(os.Args[4], ","), strings.Split(os.Args[5], ",")
	rate, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		panic(err)
	}
	client, lines := connect(kind, settings, places), make(chan string, 1000)
	for _, key := range keys {
		go write(client, key, time.Duration(float64(time.Second)/rate), lines)
	}
	ended := make(chan bool)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		select {
		case line := <-lines:
			os.Stdout.WriteString(line)
		case <-ended:
			return
		}
	}
}
