// A table in the browser that asks for its rows a page at a time.
interface Page<T> {
  rows: T[];
  next: string | null;
}

type Loader<T> = (cursor: string | null, signal: AbortSignal) => Promise<Page<T>>;

export class PagedList<T> {
  private rows: T[] = [];
  private cursor: string | null = null;
  private done = false;
  private running: AbortController | null = null;

  constructor(private readonly load: Loader<T>, private readonly onChange: (rows: readonly T[]) => void) {}

  async more(): Promise<void> {
    if (this.done || this.running !== null) return;
    const controller = new AbortController();
    this.running = controller;
    try {
      const page = await this.load(this.cursor, controller.signal);
      if (controller.signal.aborted) return;
      this.rows = [...this.rows, ...page.rows];
      this.cursor = page.next;
      this.done = page.next === null;
      this.onChange(this.rows);
    } catch (error) {
      if (!(error instanceof DOMException && error.name === "AbortError")) throw error;
    } finally {
      if (this.running === controller) this.running = null;
    }
  }

  reset(): void {
    this.running?.abort();
    this.running = null;
    this.rows = [];
    this.cursor = null;
    this.done = false;
    this.onChange(this.rows);
  }
}

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]!);

export function renderRow(row: { id: number; title: string; tags?: string[] }): string {
  const tags = (row.tags ?? []).map((tag) => `<span class="tag">${escapeHtml(tag)}</span>`).join(" ");
  return `<tr data-id="${row.id}"><td>${escapeHtml(row.title)}</td><td>${tags || "&mdash;"}</td></tr>`;
}
