// The part of Apache ECharts that the report draws with; everything else is left out of the bundle.
export { init, use, connect, format, graphic } from 'echarts/core';
import { use } from 'echarts/core';
import { BarChart, BoxplotChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import {
  AriaComponent, AxisPointerComponent, DataZoomInsideComponent, DatasetComponent, GridComponent,
  LegendPlainComponent, MarkAreaComponent, MarkLineComponent, TitleComponent, TooltipComponent,
} from 'echarts/components';
import { SVGRenderer } from 'echarts/renderers';

use([
  BarChart, BoxplotChart, CustomChart, LineChart, ScatterChart,
  AriaComponent, AxisPointerComponent, DataZoomInsideComponent, DatasetComponent, GridComponent,
  LegendPlainComponent, MarkAreaComponent, MarkLineComponent, TitleComponent, TooltipComponent,
  SVGRenderer,
]);
