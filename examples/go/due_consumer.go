// Works due items in Go with nothing but franz-go. Run it in this folder as it stands:
//
//	go run . localhost:9092 due.LetterDue letters out
//
// The kind's definition says `dispatch: {kafka: {topic: due.LetterDue, settled_by: topic}}`, and
// `dueledger work --outcomes` records what this reports. See docs/other-languages.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if len(os.Args) < 5 {
		log.Fatal("usage: due_consumer SERVERS TOPIC GROUP FOLDER [OUTCOME_TOPIC]")
	}
	servers, topic, group, folder, outcomes := os.Args[1], os.Args[2], os.Args[3], os.Args[4], "due-outcomes"
	if len(os.Args) > 5 {
		outcomes = os.Args[5]
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.BlockRebalanceOnPoll(),        // what is committed is of partitions that are still ours
		kgo.DefaultProduceTopic(outcomes), // acks=all is the default
	)
	if err != nil {
		log.Fatal(err)
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err = work(asked, client, folder)
	client.CloseAllowingRebalance()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("stopped")
}

// work polls, acts, reports and commits until it is asked to stop. What was polled is finished first.
func work(asked context.Context, client *kgo.Client, folder string) error {
	for {
		fetches := client.PollRecords(asked, 100)
		if asked.Err() != nil {
			return nil
		}
		for _, failure := range fetches.Errors() {
			if _, isSession := errors.AsType[*kgo.ErrGroupSession](failure.Err); !isSession {
				return failure.Err
			}
			log.Print(failure.Err) // the client joins its group again by itself
		}
		var answers []*kgo.Record
		for record := range fetches.RecordsAll() {
			answers = append(answers, outcome(record, answer(record, folder)))
		}
		finish := context.Background() // also when asked to stop
		if err := client.ProduceSync(finish, answers...).FirstErr(); err != nil {
			return err // an answer is not durable …
		}
		if err := client.CommitUncommittedOffsets(finish); err != nil {
			return err
		}
		client.AllowRebalance() // … and then the work comes again
	}
}

type report struct {
	Item     string            `json:"item"`
	Fence    json.Number       `json:"fence"`
	Token    string            `json:"token"`
	Position json.Number       `json:"position"`
	Verdict  string            `json:"verdict"`
	Evidence map[string]string `json:"evidence,omitempty"`
	After    string            `json:"after,omitempty"`
	Reason   string            `json:"reason,omitempty"`
}

var errUnusable = errors.New(`no "address"`)

// answer does the work of one item and returns the verdict, with what belongs to it.
func answer(record *kgo.Record, folder string) report {
	letter, err := write(record, folder)
	switch {
	case err == nil:
		return report{Verdict: "completed", Evidence: map[string]string{"letter": letter}}
	case errors.Is(err, errUnusable):
		return report{Verdict: "park", Reason: err.Error()}
	default:
		return report{Verdict: "retry", After: "PT5M", Reason: err.Error()}
	}
}

// write is the effect. It may be asked for twice: the item's id is the key to have it once.
func write(record *kgo.Record, folder string) (string, error) {
	var payload struct{ Address *string }
	if json.Unmarshal(record.Value, &payload) != nil || payload.Address == nil {
		return "", errUnusable
	}
	letter := header(record, "ce_dueitem") + ".txt"
	text := fmt.Sprintf("%s\n%s\n", header(record, "ce_subject"), record.Value)
	return letter, os.WriteFile(filepath.Join(folder, letter), []byte(text), 0o644)
}

// outcome is what is reported: what the work record says about where it was handed out.
func outcome(record *kgo.Record, said report) *kgo.Record {
	said.Item, said.Token = header(record, "ce_dueitem"), header(record, "ce_duetoken")
	said.Fence = json.Number(header(record, "ce_duefence"))
	said.Position = json.Number(header(record, "ce_dueposition"))
	value, err := json.Marshal(said)
	if err != nil {
		log.Fatal(err) // a fence or position that is no number: not from a ledger
	}
	return &kgo.Record{
		Key:   []byte(header(record, "ce_subject")),
		Value: value,
		Headers: []kgo.RecordHeader{
			{Key: "ce_specversion", Value: []byte("1.0")},
			{Key: "ce_id", Value: []byte(header(record, "ce_id") + ":outcome")},
			{Key: "ce_source", Value: []byte("/examples/go")},
			{Key: "ce_type", Value: []byte("dueledger.outcome")},
			{Key: "content-type", Value: []byte("application/json")},
		},
	}
}

func header(record *kgo.Record, name string) string {
	for _, each := range record.Headers {
		if each.Key == name {
			return string(each.Value)
		}
	}
	return ""
}
