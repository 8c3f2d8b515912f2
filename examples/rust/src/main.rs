//! A client in Rust, generated from the proto files: remembers, recalls, reads the change feed for a moment, and shows
//! what a refusal says. docs/start-grpc.md says how it is built.
//!
//! Usage: PALIMPSEST_ADDRESS=http://127.0.0.1:8080 PALIMPSEST_TOKEN=... cargo run
use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_types::StatusExt;

use protos::palimpsest::v1::change_service_client::ChangeServiceClient;
use protos::palimpsest::v1::memory_service_client::MemoryServiceClient;
use protos::palimpsest::v1::{
    GetMemoryRequest, IngestRequest, MemoryInput, RecallRequest, WatchRequest,
};

/// What the build has generated.
#[allow(clippy::all, dead_code)]
mod protos {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}

const NAMESPACE: &str = "acme";
const PROFILE: &str = "rita";
const TIMEOUT: Duration = Duration::from_secs(20);

type Outcome = Result<(), Box<dyn Error>>;

/// Puts the token on every call, streams too.
#[derive(Clone)]
struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.0 {
            request.metadata_mut().insert("authorization", header.clone());
        }
        Ok(request)
    }
}

type Memories = MemoryServiceClient<InterceptedService<Channel, Bearer>>;
type Changes = ChangeServiceClient<InterceptedService<Channel, Bearer>>;

async fn remember(memories: &mut Memories) -> Outcome {
    let theme = Value { kind: Some(Kind::StringValue("light".into())) };
    let content = Struct { fields: BTreeMap::from([("theme".into(), theme)]) };
    let request = IngestRequest {
        ns: NAMESPACE.into(),
        profile: PROFILE.into(),
        memories: vec![MemoryInput {
            r#type: "fact".into(),
            topic_key: Some("theme".into()),
            summary: "Rita prefers the light theme".into(),
            content: Some(Value { kind: Some(Kind::StructValue(content)) }),
            ..Default::default()
        }],
        ..Default::default()
    };
    let stored = memories.ingest(request).await?.into_inner();
    println!("{} by transaction {}", stored.results[0].status, stored.txid);
    Ok(())
}

async fn recall(memories: &mut Memories) -> Outcome {
    let request = RecallRequest {
        ns: NAMESPACE.into(),
        profile: PROFILE.into(),
        query: Some("which theme?".into()),
        ..Default::default()
    };
    for memory in memories.recall(request).await?.into_inner().memories {
        println!("recalled: {} {:?}", memory.summary, memory.content);
    }
    Ok(())
}

/// Reads the change feed from its beginning up to the first transaction. One that goes on for as long as a program runs
/// begins after the last txid that it has seen; leaving it is dropping the stream.
async fn watch(changes: &mut Changes) -> Outcome {
    let request = WatchRequest { db: format!("{NAMESPACE}--{PROFILE}"), after: Some(0) };
    let mut events = changes.watch(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        for change in &event.changes {
            println!("change of transaction {}: {} {}", event.txid, change.kind, change.op);
        }
        if !event.changes.is_empty() {
            return Ok(());
        }
    }
    Err("the feed ended before it told of the first transaction".into())
}

/// Asks for what is not there. The reason is the stable code, the same on every wire.
async fn refusal(memories: &mut Memories) -> Outcome {
    let request = GetMemoryRequest {
        ns: NAMESPACE.into(),
        profile: PROFILE.into(),
        id: "mem_unknown".into(),
        ..Default::default()
    };
    let Err(refused) = memories.get_memory(request).await else {
        return Err("the node has a memory that nobody has stored".into());
    };
    let details = refused.get_error_details();
    let reason = details.error_info().map_or("", |info| info.reason.as_str());
    println!("refused: {:?}, reason {reason}: {}", refused.code(), refused.message());
    Ok(())
}

async fn run() -> Outcome {
    let address = env::var("PALIMPSEST_ADDRESS").unwrap_or_else(|_| "http://127.0.0.1:8080".into());
    let token = match env::var("PALIMPSEST_TOKEN") {
        Ok(token) if !token.is_empty() => Some(format!("Bearer {token}").parse()?),
        _ => None,
    };
    let channel = Endpoint::from_shared(address)?.timeout(TIMEOUT).connect().await?;
    let mut memories = MemoryServiceClient::with_interceptor(channel.clone(), Bearer(token.clone()));
    let mut changes = ChangeServiceClient::with_interceptor(channel, Bearer(token));
    remember(&mut memories).await?;
    recall(&mut memories).await?;
    tokio::time::timeout(TIMEOUT, watch(&mut changes)).await??;
    refusal(&mut memories).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
