//! Rust from the proto files. They are compiled by a crate, so that no protoc is installed.
use std::error::Error;
use std::fs::read_dir;

use protox::Compiler;
use protox::file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver};

/// Where `palimpsest/v1` and `buf/validate` are, and Google's own files, which `npm ci` brings.
const PROTOS: [&str; 2] = ["../../proto", "../../node_modules/google-proto-files"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = ChainFileResolver::new();
    // `google/protobuf` is the crate's own.
    files.add(GoogleFileResolver::new());
    for folder in PROTOS {
        files.add(IncludeFileResolver::new(folder.into()));
    }
    let mut compiler = Compiler::with_file_resolver(files);
    compiler.include_imports(true);
    for file in read_dir("../../proto/palimpsest/v1")? {
        compiler.open_file(file?.path())?;
    }
    tonic_prost_build::configure()
        .build_server(false)
        .include_file("protos.rs")
        .compile_fds(compiler.file_descriptor_set())?;
    println!("cargo:rerun-if-changed=../../proto");
    Ok(())
}
