// What our modules take from vendor/preact.js (Preact and htm in one file).
export interface VNode {
  type: unknown;
  props: Record<string, any>;
  key: unknown;
}
export type Child = VNode | string | number | bigint | boolean | null | undefined | Child[];
type Drawing<P = any> = (props: P) => Child;
export class Component<P = any> {
  props: P;
  base: any;
}

export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
export function h(type: string | Drawing | typeof Component, props?: object | null, ...children: unknown[]): VNode;
export function render(node: Child, parent: Element | DocumentFragment): void;
export const Fragment: Drawing<{ children?: Child }>;
export function createContext<T>(value: T): { Provider: Drawing; Consumer: Drawing };
export function useContext<T>(context: { Provider: Drawing; Consumer: Drawing }): any;

type Update<S> = S | ((was: S) => S);
export function useState<S>(first: S | (() => S)): [S, (next: Update<S>) => void];
export function useState<S = undefined>(): [S | undefined, (next: Update<S | undefined>) => void];
export function useReducer<S, A>(
  reducer: (state: S, action: A) => S,
  first: S,
): [S, (action: A) => void];
export function useReducer<S, A, I>(
  reducer: (state: S, action: A) => S,
  first: I,
  init: (first: I) => S,
): [S, (action: A) => void];
export function useRef<T>(first: T): { current: T };
export function useRef<T>(first: T | null): { current: T | null };
export function useRef<T = any>(): { current: T | undefined };
type Effect = () => void | (() => void);
export function useEffect(effect: Effect, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: Effect, inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs?: readonly unknown[]): T;
export function useCallback<F extends (...given: any[]) => any>(
  call: F,
  inputs?: readonly unknown[],
): F;
export function useErrorBoundary(
  call?: (error: any) => void,
): [any, () => void];
