// A client in Go, generated from the proto files: remembers, recalls, reads the change feed for a moment, and shows what
// a refusal says. docs/start-grpc.md says how it is built.
//
// Usage: PALIMPSEST_ADDRESS=http://127.0.0.1:8080 PALIMPSEST_TOKEN=... go run .
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net/url"
	"os"
	"time"

	palimpsest "example.com/palimpsest/gen/palimpsest/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	namespace = "acme"
	profile   = "gina"
)

// bearer puts the token on every call, streams too. The library refuses credentials of its own kind without TLS, which a
// node on the same machine does not have.
type bearer string

func (token bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if token == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(token)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// connect dials what http://host:port or https://host:port names; nothing is sent before the first call.
func connect(address, token string) (*grpc.ClientConn, error) {
	node, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	transport, port := insecure.NewCredentials(), "80"
	if node.Scheme == "https" {
		transport, port = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), "443"
	}
	return grpc.NewClient(
		node.Hostname()+":"+cmp.Or(node.Port(), port),
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(bearer(token)),
	)
}

func remember(ctx context.Context, memories palimpsest.MemoryServiceClient) error {
	content, err := structpb.NewValue(map[string]any{"theme": "light"})
	if err != nil {
		return err
	}
	topic := "theme"
	stored, err := memories.Ingest(ctx, &palimpsest.IngestRequest{
		Ns:      namespace,
		Profile: profile,
		Memories: []*palimpsest.MemoryInput{
			{Type: "fact", Summary: "Gina prefers the light theme", TopicKey: &topic, Content: content},
		},
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s by transaction %d\n", stored.Results[0].Status, stored.Txid)
	return nil
}

func recall(ctx context.Context, memories palimpsest.MemoryServiceClient) error {
	query := "which theme?"
	found, err := memories.Recall(ctx, &palimpsest.RecallRequest{Ns: namespace, Profile: profile, Query: &query})
	if err != nil {
		return err
	}
	for _, memory := range found.Memories {
		fmt.Printf("recalled: %s %v\n", memory.Summary, memory.Content.AsInterface())
	}
	return nil
}

// watch reads the change feed from its beginning up to the first transaction. One that goes on for as long as a program
// runs begins after the last txid that it has seen; leaving it is ending its context.
func watch(ctx context.Context, changes palimpsest.ChangeServiceClient) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	after := int64(0)
	stream, err := changes.Watch(ctx, &palimpsest.WatchRequest{Db: namespace + "--" + profile, After: &after})
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, change := range event.Changes {
			fmt.Printf("change of transaction %d: %s %s\n", event.Txid, change.Kind, change.Op)
		}
		if len(event.Changes) > 0 {
			return nil
		}
	}
}

// refusal asks for what is not there. The reason is the stable code, the same on every wire.
func refusal(ctx context.Context, memories palimpsest.MemoryServiceClient) error {
	_, err := memories.GetMemory(ctx, &palimpsest.GetMemoryRequest{Ns: namespace, Profile: profile, Id: "mem_unknown"})
	refused, ok := status.FromError(err)
	if err == nil || !ok {
		return fmt.Errorf("no refusal of the node: %v", err)
	}
	for _, detail := range refused.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Printf("refused: %s, reason %s: %s\n", refused.Code(), info.Reason, refused.Message())
		}
	}
	return nil
}

func run() error {
	address := cmp.Or(os.Getenv("PALIMPSEST_ADDRESS"), "http://127.0.0.1:8080")
	connection, err := connect(address, os.Getenv("PALIMPSEST_TOKEN"))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	memories := palimpsest.NewMemoryServiceClient(connection)
	if err := remember(ctx, memories); err != nil {
		return err
	}
	if err := recall(ctx, memories); err != nil {
		return err
	}
	if err := watch(ctx, palimpsest.NewChangeServiceClient(connection)); err != nil {
		return err
	}
	return refusal(ctx, memories)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
