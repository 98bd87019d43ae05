//! `apr tokenize`: the tokens of a text.

use super::token::Token;
use crate::model_file::ModelArg;
use crate::terminal::one_line;
use crate::tokenizer::{EncodeOptions, Tokenizer};
use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Examples:
  apr tokenize --text 'Hello, world!'
  apr tokenize --model model.gguf --text '<bos>hi' --no-add-special
  printf '\\xff\\xfe' | apr tokenize --file -      bytes that are not UTF-8";

/// Show the tokens of a text.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,

    #[command(flatten)]
    input: Input,

    /// Leave out the tokens that the model wants around a text (BOS, EOS)
    #[arg(long)]
    no_add_special: bool,

    /// Take the text of control tokens, such as `<bos>`, for plain text
    #[arg(long)]
    no_parse_special: bool,

    /// Print JSON (schema "apr.tokenize/1") instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// The text
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    text: Option<String>,

    /// A file with the text, which need not be UTF-8; - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Input {
    fn read(&self) -> anyhow::Result<Vec<u8>> {
        match (&self.text, &self.file) {
            (Some(text), _) => Ok(text.clone().into_bytes()),
            (None, Some(file)) if file == Path::new("-") => {
                let mut bytes = Vec::new();
                let read = io::stdin().lock().read_to_end(&mut bytes);
                read.context("standard input")?;
                Ok(bytes)
            }
            (None, Some(file)) => fs::read(file).with_context(|| file.display().to_string()),
            (None, None) => unreachable!("the argument group is required"),
        }
    }
}

#[derive(Serialize)]
struct Tokens<'a> {
    schema: &'static str,
    model: &'a str,
    add_special: bool,
    parse_special: bool,
    n_bytes: usize,
    ids: Vec<u32>,
    tokens: Vec<Token>,
}

/// Runs the command.
///
/// # Errors
/// An unreadable model or text; a byte that the vocabulary has no token for.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let text = args.input.read()?;
    let file = args.model.open()?;
    let tokenizer = Tokenizer::from_gguf(&file.parse()?).with_context(|| file.name().to_owned())?;
    let options = EncodeOptions {
        add_special: !args.no_add_special,
        parse_special: !args.no_parse_special,
    };
    let ids = tokenizer.encode(&text, options)?;
    let tokens = Tokens {
        schema: "apr.tokenize/1",
        model: file.name(),
        add_special: options.add_special,
        parse_special: options.parse_special,
        n_bytes: text.len(),
        tokens: ids
            .iter()
            .map(|&id| Token::new(&tokenizer, id))
            .collect::<Result<_, _>>()?,
        ids,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, &tokens).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        print(&tokens, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

fn print(tokens: &Tokens<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "model   {}", one_line(tokens.model))?;
    let (n, bytes) = (tokens.ids.len(), tokens.n_bytes);
    writeln!(out, "tokens  {n} from {bytes} bytes of text")?;
    if tokens.ids.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["id", "kind", "text"]);
    for token in &tokens.tokens {
        let kind = token.kind.name().to_owned();
        table.add_row([token.id.to_string(), kind, token.shown()]);
    }
    if let Some(ids) = table.column_mut(0) {
        ids.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "\n{}", table.trim_fmt())
}
