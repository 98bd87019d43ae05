//! What an observer of a session is told and offered, against numpy's forward pass.
#![allow(missing_docs)]

mod support;

use apr::gguf::Gguf;
use apr::model::{At, Halt, Model, ModelError, Node, Observer, Outcome, Session, Tensor, View};
use brick_kernels::quant::Activations;
use brick_runtime::TensorStats;
use brick_runtime::trace::TraceStep;

/// Keeps all that it is told.
#[derive(Default)]
struct Recorder {
    steps: Vec<(TraceStep, At, bool)>,
    tensors: Vec<(Node, At, Vec<f32>)>,
    stop_at: Option<(Node, usize)>,
}

impl Observer for Recorder {
    fn begin(&mut self, step: TraceStep, at: At) {
        self.steps.push((step, at, true));
    }

    fn end(&mut self, step: TraceStep, at: At, outcome: Outcome<'_>) {
        assert_eq!(outcome, Outcome::Tensors);
        self.steps.push((step, at, false));
    }

    fn tensor(&mut self, tensor: &Tensor<'_>, view: &View<'_>) -> Result<(), Halt> {
        let Tensor { node, at, data } = *tensor;
        assert_eq!(tensor.width() * at.n_tokens, data.len());
        if node == Node::AttnHeads {
            let filled = view.cache.len(at.layer.unwrap());
            assert_eq!(filled, at.first_pos + at.n_tokens);
        }
        self.tensors.push((node, at, data.to_vec()));
        match self.stop_at {
            Some((stop, layer)) if stop == node && at.layer == Some(layer) => Err("enough".into()),
            _ => Ok(()),
        }
    }
}

/// Steps come in pairs, nested as the text of the steps says; tensors in the order of the pass.
#[test]
fn a_pass_is_told_in_order() {
    for (name, post_norms) in [("tiny-llama", false), ("tiny-gemma3", true)] {
        let file = support::open(&support::tiny(name));
        let gguf = Gguf::parse(&file).unwrap();
        let model = Model::load(&gguf).unwrap();
        let tokens = [1, 334, 344];
        let quiet = {
            let mut session = Session::new(&model, 8).unwrap();
            session.feed(&tokens).unwrap().to_vec()
        };
        let mut seen = Recorder::default();
        let mut session = Session::new(&model, 8).unwrap();
        session.observe(&mut seen);
        // Looking on changes nothing.
        assert_eq!(session.feed(&tokens).unwrap(), quiet);

        let n_layers = model.config().n_layers;
        let mut steps = vec![(TraceStep::Embed, true), (TraceStep::Embed, false)];
        for _ in 0..n_layers {
            let block = TraceStep::TransformerBlock;
            steps.push((block, true));
            for part in [TraceStep::Attention, TraceStep::FeedForward] {
                assert_eq!(part.part_of(), Some(block));
                steps.extend([(part, true), (part, false)]);
            }
            steps.push((block, false));
        }
        steps.extend([(TraceStep::LmHead, true), (TraceStep::LmHead, false)]);
        let told: Vec<_> = seen.steps.iter().map(|&(step, _, b)| (step, b)).collect();
        assert_eq!(told, steps, "{name}");

        let post = |node| matches!(node, Node::AttnPostNorm | Node::FfnPostNorm);
        let in_layer = Node::ALL[1..14].iter().filter(|&&n| post_norms || !post(n));
        let mut nodes = vec![(Node::Embedding, None)];
        for layer in 0..n_layers {
            nodes.extend(in_layer.clone().map(|&node| (node, Some(layer))));
        }
        nodes.extend([(Node::FinalNorm, None), (Node::Logits, None)]);
        let offered: Vec<_> = seen
            .tensors
            .iter()
            .map(|(n, at, _)| (*n, at.layer))
            .collect();
        assert_eq!(offered, nodes, "{name}");
        assert_eq!(seen.tensors.last().unwrap().2, quiet);
        let (_, at, _) = seen.tensors[0];
        assert_eq!((at.first_pos, at.n_tokens), (0, 3));
    }
}

#[test]
fn an_observer_can_stop_the_session() {
    let file = support::open(&support::tiny_llama());
    let gguf = Gguf::parse(&file).unwrap();
    let model = Model::load(&gguf).unwrap();
    let mut seen = Recorder {
        stop_at: Some((Node::Query, 1)),
        ..Recorder::default()
    };
    let mut session = Session::new(&model, 8).unwrap();
    session.observe(&mut seen);
    let error = session.feed(&[1, 2]).unwrap_err();
    assert!(matches!(error, ModelError::Halted(_)), "{error}");
    assert_eq!(error.to_string(), "enough");
    assert_eq!(session.n_past(), 0, "what was stopped is not fed");
    let (node, at, _) = seen.tensors.last().unwrap();
    assert_eq!((*node, at.layer), (Node::Query, Some(1)));
}

/// numpy's name of a node.
fn node(golden: &str) -> (Node, Option<usize>) {
    let (name, layer) = golden.split_once('-').unwrap_or((golden, ""));
    let node = match name {
        "inp_scaled" => Node::Embedding,
        "attn_norm" => Node::AttnNorm,
        "sa_out" => Node::AttnResidual,
        "l_out" => Node::LayerOutput,
        "result_norm" => Node::FinalNorm,
        _ => panic!("{golden}"),
    };
    (node, layer.parse().ok())
}

/// Each traced node of the last token: its first values, and its sum and Euclidean norm, computed
/// from our statistics.
#[test]
fn nodes_and_statistics_of_gemma_match_numpy() {
    let Some(path) = support::fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    let file = support::open(&path);
    let gguf = Gguf::parse(&file).unwrap();
    let model = Model::load(&gguf).unwrap();
    let model = model.with_activations(Activations::F32);
    let golden = support::json(&support::golden("gemma3-270m.f32.json"));
    let mut compared = 0;
    for prompt in golden["prompts"].as_array().unwrap() {
        let Some(trace) = prompt["trace_last_token_first4_sum_l2"].as_array() else {
            continue;
        };
        let ids = prompt["prompt_tokens"].as_array().unwrap();
        let ids: Vec<u32> = ids.iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let mut seen = Recorder::default();
        let mut session = Session::new(&model, ids.len()).unwrap();
        session.observe(&mut seen);
        for &id in &ids {
            session.feed(&[id]).unwrap();
        }
        for line in trace {
            let (wanted, layer) = node(line[0].as_str().unwrap());
            let (_, at, data) = seen
                .tensors
                .iter()
                .rfind(|(node, at, _)| *node == wanted && at.layer == layer)
                .unwrap();
            assert_eq!(at.first_pos, ids.len() - 1);
            let stats = TensorStats::of(data);
            let (mean, std) = (f64::from(stats.mean), f64::from(stats.std));
            let n = data.len() as f64;
            let l2 = (n * (mean * mean + std * std)).sqrt();
            let oracle = line[3].as_f64().unwrap();
            // Two f32 passes differ in the order of additions.
            let off = |a: f64, b: f64| (a - b).abs() / oracle;
            assert!(off(l2, oracle) < 1e-3, "{line}: l2 {l2}");
            let sum = off(mean * n, line[2].as_f64().unwrap());
            assert!(sum < 1e-3 * n.sqrt(), "{line}: sum {}", mean * n);
            for (ours, theirs) in data.iter().zip(line[1].as_array().unwrap()) {
                let off = off(f64::from(*ours), theirs.as_f64().unwrap());
                assert!(off < 1e-3, "{line}: {:?}", &data[..4]);
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 2 * 56);
}
