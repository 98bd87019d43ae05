//! `layer`: of the call, and of all it calls.

use brick_runtime::{brick, current_layer, layer_scope};

use crate::{BrickId, ON, stats};

#[brick(id = LayerOuter, layer = index)]
fn outer(index: u32) -> Option<u64> {
    inner();
    current_layer()
}

#[brick(id = LayerInner)]
fn inner() {}

#[test]
fn a_layer_reaches_what_is_called() {
    assert_eq!(outer(3), ON.then_some(3));
    assert_eq!(outer(5), ON.then_some(5));
    outer(5);
    inner();
    assert_eq!(current_layer(), None);
    for id in [BrickId::LayerOuter, BrickId::LayerInner] {
        if let Some(stats) = stats(id) {
            let layers: Vec<_> = stats
                .layers()
                .map(|layer| (layer.layer, layer.time.count))
                .collect();
            assert_eq!(layers, [(3, 1), (5, 2)], "{id}");
        }
    }
}

#[brick(id = LayerOverScope, layer = index)]
fn over_scope(index: u32) -> Option<u64> {
    current_layer()
}

#[test]
fn it_goes_before_the_scope_around_it() {
    let _scope = layer_scope(1);
    let around = current_layer();
    assert_eq!(over_scope(2), if ON { Some(2) } else { around });
    assert_eq!(current_layer(), around);
}
