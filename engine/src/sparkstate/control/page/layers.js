// Where the nodes of a graph stand: in layers by the longest way from a source. Numbers only, no elements.

const GAP_ACROSS = 72; // between layers that stand side by side: an edge's label needs it
const GAP_DOWN = 46; // between layers that stand one below the other
const GAP_BESIDE = 16; // between nodes of one layer
const GAP_LISTED = 12; // between nodes that stand in a list
const INDENT = 18; // of a list, for each layer
const WIDEST = 216;

/** Lists of nodes, one for each layer. A node stands behind everything that leads to it. */
export function layersOf({ nodes, edges }) {
  const depth = new Map(nodes.map((node) => [node.id, 0]));
  for (let round = 0; round < nodes.length; round += 1) {
    for (const { source, target } of edges) {
      if (depth.has(source) && depth.has(target)) {
        depth.set(target, Math.max(depth.get(target), Math.min(depth.get(source) + 1, nodes.length)));
      }
    }
  }
  const layers = [];
  for (const node of nodes) (layers[depth.get(node.id)] ??= []).push(node);
  return ordered(layers.filter(Boolean), edges);
}

/** Each layer in the order of what leads to it, so that edges seldom cross. */
function ordered(layers, edges) {
  const place = new Map();
  for (const layer of layers) {
    const wanted = (node) => {
      const from = edges.filter(({ target }) => target === node.id).map(({ source }) => place.get(source));
      const known = from.filter((one) => one !== undefined);
      return known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : 0;
    };
    layer.sort((one, other) => wanted(one) - wanted(other));
    layer.forEach((node, index) => place.set(node.id, (index + 1) / (layer.length + 1)));
  }
  return layers;
}

/** Boxes by node id, and the size of the whole: side by side if `width` has room, else one below the other, and where
 * even one layer is too wide, as a list. `heightOf(node)` in pixels. */
export function arranged(graph, width, heightOf) {
  const layers = layersOf(graph);
  if (layers.length * WIDEST + (layers.length - 1) * GAP_ACROSS <= width) return sideBySide(layers, width, heightOf);
  const most = Math.max(...layers.map((layer) => layer.length));
  if (most * (WIDEST + GAP_BESIDE) - GAP_BESIDE <= width) return below(layers, width, heightOf);
  return listed(layers, graph.edges, width, heightOf);
}

function sideBySide(layers, width, heightOf) {
  const tall = (layer) => layer.reduce((sum, node) => sum + heightOf(node) + GAP_BESIDE, -GAP_BESIDE);
  const height = Math.max(0, ...layers.map(tall));
  const gap = layers.length > 1 ? Math.min(160, (width - layers.length * WIDEST) / (layers.length - 1)) : 0;
  const boxes = new Map();
  layers.forEach((layer, index) => {
    let y = (height - tall(layer)) / 2;
    for (const node of layer) {
      boxes.set(node.id, { x: index * (WIDEST + gap), y, width: WIDEST, height: heightOf(node) });
      y += heightOf(node) + GAP_BESIDE;
    }
  });
  return { form: "across", boxes, width: layers.length * (WIDEST + gap) - gap, height };
}

function below(layers, width, heightOf) {
  const boxes = new Map();
  let y = 0;
  for (const layer of layers) {
    const taken = layer.length * (WIDEST + GAP_BESIDE) - GAP_BESIDE;
    layer.forEach((node, index) => {
      const x = (width - taken) / 2 + index * (WIDEST + GAP_BESIDE);
      boxes.set(node.id, { x, y, width: WIDEST, height: heightOf(node) });
    });
    y += Math.max(...layer.map(heightOf)) + GAP_DOWN;
  }
  return { form: "below", boxes, width, height: Math.max(0, y - GAP_DOWN) };
}

/** One node in a row, what follows from it beneath it and indented, as in a tree. */
function listed(layers, edges, width, heightOf) {
  const depth = new Map(layers.flatMap((layer, index) => layer.map((node) => [node.id, index])));
  const nodes = new Map(layers.flat().map((node) => [node.id, node]));
  const boxes = new Map();
  let y = 0;
  const waits = (node) => edges.some(({ source, target }) =>
    target === node.id && nodes.has(source) && !boxes.has(source));
  const put = (node, now = false) => {
    if (boxes.has(node.id) || (!now && waits(node))) return; // it comes beneath the last of those that lead to it
    const x = depth.get(node.id) * INDENT;
    boxes.set(node.id, { x, y, width: Math.max(120, width - x), height: heightOf(node) });
    y += heightOf(node) + GAP_LISTED;
    for (const { source, target } of edges) if (source === node.id && nodes.has(target)) put(nodes.get(target));
  };
  layers.flat().forEach((node) => put(node));
  layers.flat().forEach((node) => put(node, true)); // those of a circle wait for one another
  return { form: "list", boxes, width, height: Math.max(0, y - GAP_LISTED) };
}
