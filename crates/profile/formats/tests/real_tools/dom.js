// Runs DHAT's viewer without a browser and prints the text that it shows:
// `node dom.js dh_view.js FILE`. The document is a stand-in with the few methods that the
// viewer calls.
const fs = require('fs');
const vm = require('vm');

class Element {
  constructor(tag) {
    this.tag = tag;
    this.childNodes = [];
    this.text = '';
    this.style = {};
    this.classList = { add() {}, remove() {}, toggle() {}, [Symbol.iterator]: function* () {} };
    this.selectedIndex = 0;
  }
  appendChild(child) { this.childNodes.push(child); child.parentNode = this; return child; }
  insertBefore(child) { return this.appendChild(child); }
  replaceChild(child, old) {
    this.childNodes[this.childNodes.indexOf(old)] = child;
    child.parentNode = this;
    return old;
  }
  cloneNode() { return new Element(this.tag); }
  setAttribute() {}
  addEventListener() {}
  set textContent(text) { this.text = text; this.childNodes = []; }
  get textContent() { return this.text + this.childNodes.map(child => child.textContent).join(''); }
}

const text = content => Object.assign(new Element('#text'), { text: content });
const page = {
  createElement: tag => new Element(tag),
  createTextNode: text,
  body: new Element('body'),
  location: { search: '' },
};
const [, , viewer, file] = process.argv;
const context = vm.createContext({
  document: page,
  performance,
  console,
  URLSearchParams,
  data: fs.readFileSync(file, 'utf8'),
});
context.window = context;
vm.runInContext(fs.readFileSync(viewer, 'utf8') + `
onLoad();
tryFunc(() => { gFilename = 'ours'; gData = JSON.parse(data); buildTree(); displayTree(0, 0, 0); });
`, context);
console.log(page.body.textContent);
