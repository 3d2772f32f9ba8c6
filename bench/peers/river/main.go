// River under measurement: `river load N`, then `river work N WARM_UP`.
//
// Tuned as its documentation says: the shortest cooldown and poll, thousands of workers (a fetch
// takes as many jobs as workers are free), its batch completer, jobs inserted by COPY.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	batch      = 4000
	workersMax = 2000
	look       = 2 * time.Millisecond
)

type benchArgs struct {
	Payload json.RawMessage `json:"payload"`
}

func (benchArgs) Kind() string { return "bench" }

type benchWorker struct {
	river.WorkerDefaults[benchArgs]
	done  atomic.Int64
	began atomic.Int64
	items int64
	warm  int64
	all   chan struct{}
}

func (w *benchWorker) Work(context.Context, *river.Job[benchArgs]) error {
	done := w.done.Add(1)
	if done == w.warm {
		w.began.Store(time.Now().UnixNano())
		fmt.Println(`{"event":"measuring"}`)
	}
	if done == w.items+w.warm {
		close(w.all)
	}
	return nil
}

func load(ctx context.Context, pool *pgxpool.Pool, items int) error {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	client, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		return err
	}
	args := benchArgs{Payload: json.RawMessage(os.Getenv("DUELEDGER_PEER_PAYLOAD"))}
	began := time.Now()
	for from := 0; from < items; from += batch {
		jobs := make([]river.InsertManyParams, min(batch, items-from))
		for i := range jobs {
			jobs[i] = river.InsertManyParams{Args: args}
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	fmt.Printf("{\"event\":\"loaded\",\"seconds\":%f}\n", time.Since(began).Seconds())
	return nil
}

func work(ctx context.Context, pool *pgxpool.Pool, items, warm int) error {
	worker := &benchWorker{items: int64(items), warm: int64(warm), all: make(chan struct{})}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     river.FetchCooldownMin,
		FetchPollInterval: river.FetchPollIntervalMin,
		Logger:            slog.New(slog.DiscardHandler),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workersMax}},
		Workers:           workers,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-worker.all
	for left := true; left; time.Sleep(look) {
		query := `select exists (select from river_job where state in ('available', 'running'))`
		if err := pool.QueryRow(ctx, query).Scan(&left); err != nil {
			return err
		}
	}
	seconds := time.Since(time.Unix(0, worker.began.Load())).Seconds()
	fmt.Printf("{\"event\":\"finished\",\"seconds\":%f}\n", seconds)
	return client.Stop(ctx)
}

func run() error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DUELEDGER_PEER_DSN"))
	if err != nil {
		return err
	}
	defer pool.Close()
	items, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	if os.Args[1] == "load" {
		return load(ctx, pool, items)
	}
	warm, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return err
	}
	return work(ctx, pool, items, warm)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
