// go-redis with certificates and users of few rights. Usage: go_redis PORT [cluster] [tls=FOLDER] [acl]; prints a line per
// failure, then totals.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx, words   = context.Background(), os.Args[2:]
	cluster, acl = slices.Contains(words, "cluster"), slices.Contains(words, "acl")
	certificates = func() string {
		for _, word := range words {
			if folder, found := strings.CutPrefix(word, "tls="); found {
				return folder
			}
		}
		return ""
	}()
)

// A check that fails ends its test.
type failure string

func check(holds bool, format string, values ...any) {
	if !holds {
		panic(failure(fmt.Sprintf(format, values...)))
	}
}

// The reply of a command that must not fail.
func ok[T any](reply T, err error) T {
	check(err == nil, "error: %v", err)
	return reply
}

// A command that must fail.
func fails[T any](text string) func(reply T, err error) {
	return func(reply T, err error) {
		check(err != nil && strings.Contains(err.Error(), text), "%v, %v instead of: %s", reply, err, text)
	}
}

type login struct {
	certificate, authority, user, password string
	protocol                               int
}

func connect(by login) redis.UniversalClient {
	var config *tls.Config
	if certificates != "" {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ok(os.ReadFile(certificates + "/" + by.authority + ".crt")))
		config = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
		if by.certificate != "" {
			file := certificates + "/" + by.certificate
			config.Certificates = []tls.Certificate{ok(tls.LoadX509KeyPair(file+".crt", file+".key"))}
		}
	}
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: []string{"127.0.0.1:" + os.Args[1]}, IsClusterMode: cluster, TLSConfig: config, Protocol: by.protocol,
		Username: by.user, Password: by.password, MaxRetries: 1,
	})
}

func app(protocol int) redis.UniversalClient {
	by := login{certificate: "app", authority: "ca", protocol: protocol}
	if acl && certificates == "" {
		by.user, by.password = "app", "secret"
	}
	return connect(by)
}

func reader(protocol int, password string) redis.UniversalClient {
	return connect(login{"guest", "ca", "reader", password, protocol})
}

func commandsAndPipelines(protocol int) {
	r := app(protocol)
	defer r.Close()
	ok(r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for number := range 100 {
			p.Set(ctx, fmt.Sprint("app:", number), number, 0)
		}
		return nil
	}))
	for number := range 100 {
		got := ok(r.Get(ctx, fmt.Sprint("app:", number)).Int())
		check(got == number, "%d: %d", number, got)
	}
	replies := ok(r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "app:{t}", 1, 0)
		p.Incr(ctx, "app:{t}")
		return nil
	}))
	check(replies[1].(*redis.IntCmd).Val() == 2, "%v", replies)
	large := strings.Repeat("x", 4<<20)
	ok(r.Set(ctx, "app:large", large, 0).Result())
	check(ok(r.Get(ctx, "app:large").Result()) == large, "another large value")
	_, err := r.BLPop(ctx, 100*time.Millisecond, "app:none").Result()
	check(err == redis.Nil, "%v", err)
}

func messages(protocol int) {
	r := app(protocol)
	defer r.Close()
	listener := r.Subscribe(ctx, "app:news")
	defer listener.Close()
	ok(listener.ReceiveTimeout(ctx, 10*time.Second))
	ok(r.Publish(ctx, "app:news", "text").Result())
	message := ok(listener.ReceiveTimeout(ctx, 10*time.Second)).(*redis.Message)
	check(message.Channel == "app:news" && message.Payload == "text", "%v", message)
}

func whatTheUserMayNot(protocol int) {
	r := app(protocol)
	defer r.Close()
	fails[string]("NOPERM No permissions to access a key")(r.Set(ctx, "other", 1, 0).Result())
	user := ok(r.Do(ctx, "ACL", "WHOAMI").Text())
	check(user == "app", "%s", user)
	fails[any]("NOPERM")(r.Eval(ctx, "return 1", []string{"app:1"}).Result())
	fails[int64]("NOPERM")(r.Publish(ctx, "other", "text").Result())
	fails[[]redis.Cmder]("")(r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "app:{b}", 1, 0)
		p.Set(ctx, "{b}other", 1, 0)
		return nil
	}))
	check(r.Get(ctx, "app:{b}").Err() == redis.Nil, "half of a transaction")
}

func oneThatOnlyReads(protocol int) {
	writer, r, wrong := app(protocol), reader(protocol, "glasses"), reader(protocol, "wrong")
	defer writer.Close()
	defer r.Close()
	defer wrong.Close()
	ok(writer.Set(ctx, "app:{r}", "text", 0).Result())
	check(ok(r.Get(ctx, "app:{r}").Result()) == "text", "another value")
	fails[string]("NOPERM User reader has no permissions to run the 'set' command")(r.Set(ctx, "app:{r}", 1, 0).Result())
	fails[string]("NOPERM")(r.Get(ctx, "other").Result())
	fails[string]("WRONGPASS")(wrong.Get(ctx, "app:{r}").Result())
}

func whoIsLetIn(protocol int) {
	for _, by := range []login{{authority: "ca"}, {certificate: "stranger", authority: "ca"}, {certificate: "app", authority: "other"}} {
		by.protocol = protocol
		r := connect(by)
		fails[string]("")(r.Get(ctx, "app:1").Result())
		r.Close()
	}
	by := login{certificate: "guest", authority: "ca", protocol: protocol}
	if acl {
		by.user, by.password = "reader", "glasses"
	}
	r := connect(by)
	defer r.Close()
	ok(r.Get(ctx, "app:1").Result())
}

func main() {
	type test struct {
		name string
		run  func(protocol int)
	}
	tests := []test{{"commands and pipelines", commandsAndPipelines}, {"messages", messages}}
	if acl {
		tests = append(tests, test{"what the user may not", whatTheUserMayNot}, test{"one that only reads", oneThatOnlyReads})
	}
	if certificates != "" {
		tests = append(tests, test{"who is let in", whoIsLetIn})
	}
	passed, failed := 0, 0
	for _, protocol := range []int{2, 3} {
		for _, one := range tests {
			func() {
				defer func() {
					why := recover()
					if why == nil {
						passed++
						return
					}
					failed++
					fmt.Printf("go-redis, RESP%d, %v: %s: %v\n", protocol, words, one.name, why)
				}()
				one.run(protocol)
			}()
		}
	}
	fmt.Printf("go-redis %s: %d passed, %d failed\n", redis.Version(), passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
