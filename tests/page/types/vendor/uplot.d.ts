// vendor/uplot.js: its own types are in its package, and ours ask little of them.
declare const uPlot: any;
export default uPlot;
